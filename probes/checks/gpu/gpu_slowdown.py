"""Check that nothing slows a GPU down: clock event reasons, heat, fans.

Power capping (`sw_power_cap`) is normal under load, and an idle GPU reports `gpu_idle`; neither is a finding.
But if GPUs do the same work, power should cap all of them alike. Hopper and newer report a margin (T.Limit)
that shrinks as the temperature rises, and the margin at which clocks fall; older GPUs report degrees. Some
boards report a margin of 0 while they are cool; such a margin is not used. Source: NVML reference, clock
event reasons and their counters; NVIDIA/DCGM#242 and leptonai/gpud (thermal and power brake, temperatures);
NVIDIA/NVSentinel, thermal margins.
"""

from collections.abc import Iterable

from probes.base.record import NOT_RECORDED, Reason, Unknown, known, only_known
from probes.base.units import plural
from probes.catalogue.thresholds import Thresholds, ViolationLimit
from probes.facts import Gpu, count_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, each_gpu, judge_each, on_gpus, unknown_among

THROTTLE = Judge(check_id="gpu-throttle", why="All ranks wait for the GPU whose clocks are held down.")

_GENERAL = "hw_slowdown"
VIOLATIONS = Judge(
    check_id="gpu-violations",
    why="What limited the clocks before will limit them again under load, and all ranks wait.",
)

_CAP = "sw_power_cap"
_SECOND_US = 1e6
TEMPERATURE = Judge(
    check_id="gpu-temperature",
    why="A hot GPU lowers its clocks, and all ranks wait for it; at its highest limit it shuts down.",
)
SPREAD = Judge(
    check_id="gpu-temperature-spread",
    why="One GPU that is much hotter than the others has bad cooling and throttles first.",
)
FAN = Judge(check_id="gpu-fan", why="A GPU whose fan has stopped overheats within minutes of load.")

_COOLING = Remedy(
    text="Check fans, airflow, inlet temperature and the heat sink.", command="nvidia-smi -q -d TEMPERATURE"
)


@each_gpu(THROTTLE, what="the clock event reasons", good="no slowdown by heat or a power brake is reported")
def gpu_throttle(gpu: Gpu, evidence: Evidence) -> Judged:
    reasons = gpu.throttle_reasons
    if isinstance(reasons, Unknown):
        return reasons
    active = [row for row in evidence.thresholds.throttle_reasons if row.name in reasons]
    if not active:
        return ", ".join(reasons) or "no reason active"
    # A general bit is set together with the bit that names the cause; the last row in the table is the most
    # specific.
    row = next((row for row in reversed(active) if row.severe), active[-1])
    # A cause is reported together with the general bit. If this bit is missing and the clock is at its
    # highest, the cause is outdated or an error of the driver.
    is_stale = (
        _GENERAL not in reasons and known(gpu.sm_clock_mhz) and gpu.sm_clock_mhz == gpu.sm_clock_max_mhz
    )
    return THROTTLE.problem(
        f"GPU{gpu.index}",
        f"a reason is reported, but the clock is at its highest: {row.meaning}"
        if is_stale
        else f"clocks are held down: {row.meaning}",
        fails=row.severe and not is_stale,
        expected="no slowdown",
        observed=", ".join(reasons),
        remedy=Remedy(text=row.remedy, command="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
        evidence=(row.ref,),
    )


@on_gpus(VIOLATIONS)
def gpu_violations(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterable[Finding]:
    peers_free = sum(
        known(gpu.limits.violations_us) and count_of(gpu.limits.violations_us, _CAP) == 0 for gpu in gpus
    )
    return judge_each(
        VIOLATIONS,
        gpus,
        lambda gpu: _violations(gpu, evidence.thresholds.violation_limits, peers_free),
        what="the time that clocks were held down",
        good="neither heat nor the power brake held the clocks down for long",
    )


def _violations(gpu: Gpu, limits: tuple[ViolationLimit, ...], peers_free: int) -> Judged:
    counters = gpu.limits.violations_us
    if isinstance(counters, Unknown):
        return counters
    for limit in limits:
        seconds = (count_of(counters, limit.name) or 0) / _SECOND_US
        if seconds > limit.value:
            return VIOLATIONS.warned(
                f"GPU{gpu.index}",
                f"clocks were held down: {limit.meaning}",
                expected=f"at most {limit.value:g} s since the driver was loaded",
                observed=f"{seconds:.1f} s",
                remedy=Remedy(
                    text="Read the counters again under load; if they rise, check cooling and power of this "
                    "GPU.",
                    command="nvidia-smi -q -d PERFORMANCE",
                ),
                evidence=(limit.ref,),
            )
    capped = count_of(counters, _CAP) or 0
    if capped and peers_free:
        return VIOLATIONS.warned(
            f"GPU{gpu.index}",
            "the power limit slowed this GPU down, but not all other GPUs",
            expected="all GPUs alike",
            observed=f"{capped / _SECOND_US:.3g} s here, 0 on {plural(peers_free, 'other')}",
            remedy=Remedy(
                text="This is normal if only this GPU had work; otherwise compare power limits and cooling.",
                command="nvidia-smi -q -d POWER",
            ),
        )
    most = max(counters, key=lambda counter: counter.value, default=None)
    return (
        f"at most {most.value / _SECOND_US:.3g} s ({most.name})" if most is not None and most.value else "0 s"
    )


@each_gpu(TEMPERATURE, what="the temperature", good="GPUs are cool enough")
def gpu_temperature(gpu: Gpu, evidence: Evidence) -> Judged:
    thresholds = evidence.thresholds
    temperature, margin, slowdown = (
        gpu.temperature_c,
        gpu.limits.temperature_margin_c,
        gpu.limits.temperature_slowdown_c,
    )
    if isinstance(temperature, Unknown):
        return temperature
    if known(margin):
        if margin > thresholds.temperature_margin_warn_c.value:
            return f"{temperature} °C"
        if temperature < thresholds.temperature_plausible_c.value:
            return Unknown(
                Reason.NOT_SUPPORTED, f"a margin of {margin} at {temperature} °C is not a valid reading"
            )
        return _hot(
            gpu,
            f"margin {margin} at {temperature} °C",
            thresholds,
            is_over=known(slowdown) and margin <= slowdown,
        )
    # On Hopper and newer, this limit is an offset of the margin, not a temperature.
    if isinstance(slowdown, Unknown) or slowdown <= 0:
        return slowdown if isinstance(slowdown, Unknown) else NOT_RECORDED
    highest = gpu.limits.temperature_max_operating_c
    if temperature >= slowdown:
        return _hot(gpu, f"{temperature} °C, clocks fall at {slowdown} °C", thresholds, is_over=True)
    if known(highest) and highest > 0 and temperature >= highest:
        return _hot(gpu, f"{temperature} °C, allowed {highest} °C", thresholds, is_over=False)
    return f"{temperature} °C"


def _hot(gpu: Gpu, observed: str, thresholds: Thresholds, *, is_over: bool) -> Finding:
    return TEMPERATURE.problem(
        f"GPU{gpu.index}",
        "so hot that clocks fall" if is_over else "close to the temperature at which clocks fall",
        fails=is_over,
        expected="a margin to the limit",
        observed=observed,
        remedy=_COOLING,
        evidence=(thresholds.temperature_margin_warn_c.ref,),
    )


@on_gpus(SPREAD)
def gpu_temperature_spread(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    readings = [(gpu.temperature_c, gpu.index) for gpu in gpus if known(gpu.temperature_c)]
    if len(gpus) == 1:
        return SPREAD.skipped(HOST, "one GPU has no other to compare with")
    if len(readings) < 2:
        unread = unknown_among(*(gpu.temperature_c for gpu in gpus))
        return SPREAD.undetermined(HOST, unread, what="the temperatures")
    limits = evidence.thresholds
    (coolest, cool), (hottest, hot) = min(readings), max(readings)
    if hottest - coolest <= limits.temperature_spread_c.value:
        if len(readings) < len(gpus):
            unread = unknown_among(*(gpu.temperature_c for gpu in gpus))
            return SPREAD.undetermined(HOST, unread, what="some temperatures")
        return SPREAD.passed(
            HOST, "no GPU is much hotter than the others", observed=f"{coolest} to {hottest} °C"
        )
    if not _is_alike(gpus, limits):
        return SPREAD.skipped(HOST, "temperatures are compared only between equal GPUs under the same load")
    return SPREAD.warned(
        f"GPU{hot}",
        "much hotter than another GPU at the same power",
        expected=f"at most {limits.temperature_spread_c.value:.0f} degrees apart",
        observed=f"{hottest} °C against {coolest} °C of GPU{cool}",
        remedy=_COOLING,
        evidence=(limits.temperature_spread_c.ref,),
    )


def _is_alike(gpus: tuple[Gpu, ...], limits: Thresholds) -> bool:
    """Return whether all GPUs are of one model, work, and take about the same power."""
    powers = only_known(gpu.power_w for gpu in gpus)
    loads = only_known(gpu.utilization_percent for gpu in gpus)
    if not len(powers) == len(loads) == len(gpus) or len({str(gpu.name) for gpu in gpus}) > 1:
        return False
    is_even = max(powers) - min(powers) <= limits.equal_load_fraction.value * max(powers)
    return is_even and min(loads) >= limits.idle_utilization_percent.value


@each_gpu(FAN, what="fan speed and temperature", good="no fan stands still on a hot GPU")
def gpu_fan(gpu: Gpu, evidence: Evidence) -> Judged:
    needed = evidence.thresholds.fan_needed_c
    speed, temperature = gpu.limits.fan_percent, gpu.temperature_c
    if isinstance(speed, Unknown):
        if speed.reason is not Reason.ERROR or "lost" in speed.detail.lower():
            return speed
        return FAN.warned(
            f"GPU{gpu.index}",
            "the fan sensor does not work",
            expected="a speed",
            observed=speed.detail or "error",
            remedy=Remedy(
                text="See whether the fan turns; if not, have it replaced.",
                command="nvidia-smi -q -d TEMPERATURE",
            ),
        )
    if speed != 0:
        return f"{speed} %"
    if isinstance(temperature, Unknown):
        return temperature
    if temperature >= needed.value:
        return FAN.failed(
            f"GPU{gpu.index}",
            "the fan does not turn on a hot GPU",
            expected="a turning fan",
            observed=f"0 % at {temperature} °C",
            remedy=_COOLING,
            evidence=(needed.ref,),
        )
    return f"{speed} %"
