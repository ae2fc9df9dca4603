"""Published numbers of the three protocols (tables 3 to 6 of the benchmark; 24 elements)."""

from typing import NamedTuple


class PublishedMeasures(NamedTuple):
    """None: not in the table."""

    latency_mean: float | None = None  # ms
    latency_p99: float | None = None
    checkpoints: int | None = None  # including forced ones
    forced: int | None = None
    recovery: float | None = None  # seconds
    rollback: float | None = None
    lost: int | None = None


_CC, _UC, _CIC = "coordinated", "uncoordinated", "induced"

# By workload, windows ("" where there is one size), protocol, interval in seconds.
PUBLISHED: dict[tuple[str, str, str, int], PublishedMeasures] = {
    ("nexmark-2", "", _UC, 10): PublishedMeasures(39.45, 117, 240, 0, 44, 25.8, 14_304),
    ("nexmark-2", "", _UC, 15): PublishedMeasures(42.82, 120, 168, 0, 43, 31.06, 35_948),
    ("nexmark-2", "", _CC, 10): PublishedMeasures(41.69, 134, 240, 0, 35, 24.07, 0),
    ("nexmark-2", "", _CC, 15): PublishedMeasures(44.45, 172, 168, 0, 35, 29.04, 0),
    ("nexmark-2", "", _CIC, 10): PublishedMeasures(45.25, 214, 240, 18, 42, 25.9, 20_547),
    ("nexmark-2", "", _CIC, 15): PublishedMeasures(43.85, 229, 168, 15, 48, 34.56, 32_905),
    ("nexmark-3", "large", _UC, 10): PublishedMeasures(None, None, 238, 0, 23, 18.73, 173),
    ("nexmark-3", "large", _UC, 15): PublishedMeasures(None, None, 165, 0, 28, 26.83, 368),
    ("nexmark-3", "large", _CC, 10): PublishedMeasures(None, None, 239, 0, 28, 19.51, 0),
    ("nexmark-3", "large", _CC, 15): PublishedMeasures(None, None, 164, 0, 30, 23.75, 0),
    ("nexmark-3", "large", _CIC, 10): PublishedMeasures(None, None, 240, 51, 23, 24.5, 288),
    ("nexmark-3", "large", _CIC, 15): PublishedMeasures(None, None, 168, 34, 28, 28.97, 529),
    ("nexmark-3", "small", _UC, 10): PublishedMeasures(lost=915),
    ("nexmark-3", "small", _UC, 15): PublishedMeasures(lost=4_345),
    ("nexmark-3", "small", _CIC, 10): PublishedMeasures(lost=6_565),
    ("nexmark-3", "small", _CIC, 15): PublishedMeasures(lost=12_241),
    ("nexmark-5", "large", _UC, 10): PublishedMeasures(None, None, 223, 0),
    ("nexmark-5", "large", _UC, 15): PublishedMeasures(None, None, 152, 0),
    ("nexmark-5", "large", _CC, 10): PublishedMeasures(None, None, 240, 0),
    ("nexmark-5", "large", _CC, 15): PublishedMeasures(None, None, 152, 0),
    ("nexmark-5", "large", _CIC, 10): PublishedMeasures(None, None, 233, 113),
    ("nexmark-5", "large", _CIC, 15): PublishedMeasures(None, None, 162, 80),
    ("nexmark-6", "small", _UC, 10): PublishedMeasures(recovery=49, rollback=15.23),
    ("nexmark-6", "small", _UC, 15): PublishedMeasures(recovery=40, rollback=22.99),
    ("nexmark-6", "small", _CC, 10): PublishedMeasures(recovery=65, rollback=30.09),
    ("nexmark-6", "small", _CC, 15): PublishedMeasures(recovery=61, rollback=21.43),
    ("nexmark-6", "small", _CIC, 10): PublishedMeasures(recovery=44, rollback=17.45),
    ("nexmark-6", "small", _CIC, 15): PublishedMeasures(recovery=46, rollback=19.37),
    ("wordcount", "large", _UC, 10): PublishedMeasures(1180.92, 2798, None, None, None, None, 34),
    ("wordcount", "large", _UC, 15): PublishedMeasures(1235.92, 2808, None, None, None, None, 2),
    ("wordcount", "large", _CC, 10): PublishedMeasures(980.28, 1757),
    ("wordcount", "large", _CC, 15): PublishedMeasures(1103.94, 2126),
    ("wordcount", "large", _CIC, 10): PublishedMeasures(771.57, 2962, None, None, None, None, 13),
    ("wordcount", "large", _CIC, 15): PublishedMeasures(849.71, 2806, None, None, None, None, 58),
    ("wordcount", "small", _UC, 10): PublishedMeasures(817.45, 2115, 235, 0, 41, 21.51, 331),
    ("wordcount", "small", _UC, 15): PublishedMeasures(820.25, 2109.45, 164, 0, 36, 26.33, 692),
    ("wordcount", "small", _CC, 10): PublishedMeasures(832.70, 3107, 240, 0, 35, 20.58, 0),
    ("wordcount", "small", _CC, 15): PublishedMeasures(865.92, 3098, 168, 0, 40, 25.42, 0),
    ("wordcount", "small", _CIC, 10): PublishedMeasures(422.84, 1162, 236, 19, 53, 23.09, 193),
    ("wordcount", "small", _CIC, 15): PublishedMeasures(381.82, 1160, 164, 27, 44, 30.83, 713),
    ("nhop", "", _UC, 10): PublishedMeasures(168.37, 356, 240, 0, 41, 118.62),
    ("nhop", "", _UC, 15): PublishedMeasures(170.82, 325, 168, 0, 36, 113.82),
    ("nhop", "", _CIC, 10): PublishedMeasures(99.81, 431, 240, 84, 30, 20.68),
    ("nhop", "", _CIC, 15): PublishedMeasures(94.83, 366.01, 167, 46, 27, 22.0),
}
