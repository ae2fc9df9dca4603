-- orders with a total; their sums
CREATE STREAMING TABLE good_orders AS
SELECT id, ordered, total, total > 5 AS large FROM STREAM raw_orders WHERE total IS NOT NULL;

CREATE MATERIALIZED VIEW large_orders AS
SELECT large, count(*) AS orders, max(total) AS most FROM good_orders GROUP BY large;
