"""All check cases."""

from __future__ import annotations

from tests.support.check_cases_fabric import FABRIC_CASES
from tests.support.check_cases_gpu import GPU_CASES
from tests.support.check_cases_gpu_health import GPU_HEALTH_CASES
from tests.support.check_cases_host import HOST_CASES, NETWORK_CASES, SOFTWARE_CASES
from tests.support.check_cases_interfaces import DISCOVERY_CASES, INTERFACE_CASES
from tests.support.check_cases_links import LINK_CASES
from tests.support.check_cases_logs import LOG_CASES
from tests.support.check_cases_measured import MEASURED_CASES
from tests.support.check_cases_measured_host import MEASURED_HOST_CASES
from tests.support.check_cases_network import PORT_CASES
from tests.support.check_cases_pci import PCI_CASES
from tests.support.check_cases_policy import POLICY_CASES
from tests.support.check_cases_system import SYSTEM_CASES
from tests.support.check_cases_tools import TOOL_CASES

CASES = (
    *GPU_CASES,
    *GPU_HEALTH_CASES,
    *FABRIC_CASES,
    *NETWORK_CASES,
    *HOST_CASES,
    *SOFTWARE_CASES,
    *LOG_CASES,
    *PCI_CASES,
    *PORT_CASES,
    *INTERFACE_CASES,
    *DISCOVERY_CASES,
    *SYSTEM_CASES,
    *POLICY_CASES,
    *LINK_CASES,
    *TOOL_CASES,
    *MEASURED_CASES,
    *MEASURED_HOST_CASES,
)
