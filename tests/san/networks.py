"""Networks that several tests use. Few of them: each structure is compiled once, and that takes seconds."""

from tests.san.compose import join, rep

from riprap.san.formalism import (
    Activity,
    ActivityCase,
    Distribution,
    InputGate,
    Invariant,
    Network,
    OutputGate,
    SanPlace,
    accumulated,
    deterministic,
    empirical,
    exponential,
    gamma,
    impulse,
    lognormal,
    normal,
    time_averaged,
    uniform,
    weibull,
)


def queue(servers: int) -> Network:
    """M/M/c: arrivals at rate `arrival`, each of `servers` serving at rate `service`."""
    return Network(
        f"queue with {servers}",
        (SanPlace("waiting"), SanPlace("gone")),
        (
            Activity("arrive", exponential("arrival"), cases=(ActivityCase(outputs={"waiting": 1}),)),
            Activity(
                "serve",
                exponential(f"service * min(waiting, {servers})"),
                {"waiting": 1},
                cases=(ActivityCase(outputs={"gone": 1}),),
            ),
        ),
        (time_averaged("length", "waiting"), time_averaged("empty", "waiting == 0"), impulse("served", "serve")),
        parameters={"arrival": 0.6, "service": 1.0},
    )


def bounded_queue(servers: int, room: int) -> Network:
    """The same with room for so many, so that it has finitely many states."""
    open_ = queue(servers)
    arrive, serve = open_.activities
    places = (SanPlace("waiting"),)
    return Network(
        open_.name,
        places,
        (
            Activity(arrive.name, arrive.delay, gates=(InputGate(f"waiting < {room}"),), cases=arrive.cases),
            Activity(serve.name, serve.delay, {"waiting": 1}),
        ),
        open_.rewards,
        parameters=open_.parameters,
    )


def repair_shop(machines: int, crews: int) -> Network:
    """Machines that fail, and crews that repair one machine each; crews are shared."""
    machine = Network(
        "machine",
        (
            SanPlace("up", 1),
            SanPlace("down"),
            SanPlace("mended"),
            SanPlace("crews", crews),
            SanPlace("working", machines),
        ),
        (
            Activity(
                "fail", exponential("failure"), {"up": 1, "working": 1}, cases=(ActivityCase(outputs={"down": 1}),)
            ),
            Activity("call", None, {"down": 1, "crews": 1}, cases=(ActivityCase(outputs={"mended": 1}),)),
            Activity(
                "mend",
                exponential("repair"),
                {"mended": 1},
                cases=(ActivityCase(outputs={"up": 1, "working": 1, "crews": 1}),),
            ),
        ),
        parameters={"failure": 0.2, "repair": 1.0},
    )
    shop = rep("repair shop", machine, machines, ("crews", "working"))
    return Network(
        shop.name,
        shop.places,
        shop.activities,
        (time_averaged("working", "working"),),
        (Invariant("no more crews than there are", f"crews <= {crews}"),),
        shop.parameters,
    )


def tandem() -> Network:
    """Two queues in a row."""
    return Network(
        "tandem",
        (SanPlace("first"), SanPlace("second")),
        (
            Activity("arrive", exponential("arrival"), cases=(ActivityCase(outputs={"first": 1}),)),
            Activity("serve1", exponential("service1"), {"first": 1}, cases=(ActivityCase(outputs={"second": 1}),)),
            Activity("serve2", exponential("service2"), {"second": 1}),
        ),
        (time_averaged("first", "first"), time_averaged("second", "second")),
        parameters={"arrival": 0.5, "service1": 1.0, "service2": 0.8},
    )


def all_closed_forms() -> Network:
    """Everything that is known in closed form, side by side in one network: one compilation."""
    parts = {"one": queue(1), "three": queue(3), "shop": repair_shop(5, 2), "row": tandem()}
    return join("closed forms", parts, {})


DELAYS: dict[str, Distribution] = {
    "exponential": exponential(2.0),
    "deterministic": deterministic(0.5),
    "uniform": uniform(0.2, 0.8),
    "normal": normal(0.5, 0.2),
    "lognormal": lognormal(-1.0, 0.5),
    "weibull": weibull(1.5, 0.5),
    "gamma": gamma(2.5, 0.2),
    "small_gamma": gamma(0.5, 1.0),
    "empirical": empirical(0.1, 0.4, 0.9),
}


def everything() -> Network:
    """Every distribution and every kind of gate, case, priority and reward, in one lively network."""
    makers = tuple(
        Activity(
            f"make_{name}", delay, gates=(InputGate("stock < limit"),), cases=(ActivityCase(outputs={"stock": 1}),)
        )
        for name, delay in DELAYS.items()
    )
    return Network(
        "everything",
        (SanPlace("stock", 3), SanPlace("shipped"), SanPlace("broken"), SanPlace("mode", 1), SanPlace("urgent")),
        (
            *makers,
            Activity(
                "ship",
                exponential("pace * (1 + stock / 4)"),
                gates=(InputGate("stock >= 2 and mode == 1", "stock -= 2"),),
                cases=(
                    ActivityCase("good * (1 - 1 / (2 + stock))", {"shipped": 1}),
                    ActivityCase(
                        "1 - good * (1 - 1 / (2 + stock))",
                        gates=(OutputGate("broken += 1\nif broken > 2: urgent = 1"),),
                    ),
                ),
            ),
            Activity("mend", deterministic("0.3 + stock / 10"), {"broken": 1}),
            Activity(
                "rest",
                uniform(1.0, 2.0),
                gates=(InputGate("mode == 1"),),
                cases=(ActivityCase(gates=(OutputGate("mode = 0"),)),),
            ),
            Activity(
                "wake",
                uniform(0.1, 0.3),
                gates=(InputGate("mode == 0"),),
                cases=(ActivityCase(gates=(OutputGate("mode = 1"),)),),
            ),
            Activity("sweep", None, gates=(InputGate("stock >= limit", "stock = stock // 2"),), priority=2),
            Activity(
                "scrap",
                None,
                {"urgent": 1},
                cases=(ActivityCase(0.5, gates=(OutputGate("broken = 0"),)), ActivityCase(0.5)),
                priority=1,
            ),
        ),
        (
            time_averaged("stock", "stock"),
            accumulated("resting", "mode == 0 or stock == 0"),
            impulse("shipped", "ship", value="min(stock, 3) - 0.5"),
            impulse("made", *(activity.name for activity in makers)),
        ),
        (Invariant("mode is 0 or 1", "mode <= 1"),),
        {"limit": 12.0, "pace": 3.0, "good": 0.8},
    )
