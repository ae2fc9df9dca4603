CREATE STREAMING TABLE fast AS SELECT sensor, at, speed FROM STREAM(readings) WHERE speed > 4;
CREATE MATERIALIZED VIEW per_sensor AS SELECT sensor, count(speed) AS n, min(speed) AS least FROM readings GROUP BY sensor;
