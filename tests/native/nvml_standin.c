/* A stand-in for libnvidia-ml.so.1 that answers from a scenario.
 *
 * RIGTUNE_NVML_SCENARIO names the scenario, a text file with one `key = value` per line. A value of one GPU
 * (`gpu3.temperature_c`) takes precedence over the value of all GPUs (`temperature_c`).
 *
 * Any number of lines can make a call fail instead of answering: `hang = FUNCTION`, `crash = FUNCTION` and
 * `error = FUNCTION CODE`, or for GPU 3 alone `hang = FUNCTION 3` and `error = FUNCTION CODE 3`.
 * `slow = FUNCTION 0.7` delays the first call for each GPU in a process by 0.7 s; `slow = FUNCTION 0.7 3` delays
 * that for GPU 3 alone.
 *
 * Without a file, or without the variable, the driver is not loaded. A file that is replaced by a rename is read
 * again, so that the machine can change while a program watches it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_GPUS 64
#define MAX_ROWS 512

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };

struct device { int index; };
typedef struct device *device_t;
struct row { char key[64]; char value[192]; };

static struct device devices[MAX_GPUS];
static struct row rows[MAX_ROWS];
static int row_count;
static struct timespec loaded;
static char waited[MAX_ROWS][MAX_GPUS + 1];

static void trim(char *text) {
    size_t length = strlen(text);
    while (length && strchr(" \t\r\n", text[length - 1])) text[--length] = 0;
    memmove(text, text + strspn(text, " \t"), strlen(text + strspn(text, " \t")) + 1);
}

static int load(void) {
    const char *path = getenv("RIGTUNE_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[300];
    struct stat status;
    if (!file) return 0;
    if (!fstat(fileno(file), &status)) loaded = status.st_mtim;
    row_count = 0;
    while (row_count < MAX_ROWS && fgets(line, sizeof line, file)) {
        char *equals = strchr(line, '=');
        if (!equals) continue;
        *equals = 0;
        snprintf(rows[row_count].key, sizeof rows[0].key, "%.63s", line);
        snprintf(rows[row_count].value, sizeof rows[0].value, "%.191s", equals + 1);
        trim(rows[row_count].key);
        trim(rows[row_count].value);
        row_count++;
    }
    fclose(file);
    for (int i = 0; i < MAX_GPUS; i++) devices[i].index = i;
    return 1;
}

static const char *text_of(device_t device, const char *key, const char *fallback) {
    char own[96];
    if (device) {
        snprintf(own, sizeof own, "gpu%d.%s", device->index, key);
        for (int i = 0; i < row_count; i++) if (!strcmp(rows[i].key, own)) return rows[i].value;
    }
    for (int i = 0; i < row_count; i++) if (!strcmp(rows[i].key, key)) return rows[i].value;
    return fallback;
}

static unsigned long long number(device_t device, const char *key, unsigned long long fallback) {
    const char *text = text_of(device, key, NULL);
    return text ? strtoull(text, NULL, 0) : fallback;
}

/* Return SUCCESS if the call should answer, or the error of the scenario; hang or crash if the scenario says so. */
static int act(const char *function, device_t device) {
    const char *path = getenv("RIGTUNE_NVML_SCENARIO");
    struct stat status;
    if (path && !stat(path, &status) && memcmp(&status.st_mtim, &loaded, sizeof loaded)) load();
    for (int i = 0; i < row_count; i++) {
        char name[96] = "";
        double number = -1;
        int second = -1, fields = sscanf(rows[i].value, "%95s %lf %d", name, &number, &second), first = (int)number;
        int error = !strcmp(rows[i].key, "error"), slow = !strcmp(rows[i].key, "slow");
        int only = error || slow ? (fields > 2 ? second : -1) : (fields > 1 ? first : -1);
        if (strcmp(name, function) || (only >= 0 && (!device || device->index != only))) continue;
        char *before = &waited[i][device ? device->index + 1 : 0];
        if (slow && !*before) { *before = 1; usleep((useconds_t)(number * 1e6)); }
        if (!strcmp(rows[i].key, "hang")) for (;;) pause();
        if (!strcmp(rows[i].key, "crash")) { volatile int *nowhere = NULL; *nowhere = 1; }
        if (error) return first;
    }
    return SUCCESS;
}

#define ACT(device) do { int outcome = act(__func__, device); if (outcome) return outcome; } while (0)

/* A call with one unsigned result. */
#define UNSIGNED(function, key, fallback) \
    EXPORT int function(device_t device, unsigned *value) { ACT(device); *value = (unsigned)number(device, key, fallback); return SUCCESS; }
/* A call that this machine does not support. */
#define UNSUPPORTED(function) EXPORT int function(device_t device, void *value) { (void)value; ACT(device); return NOT_SUPPORTED; }
/* A call that writes text. */
#define TEXT(function, key, fallback) \
    EXPORT int function(device_t device, char *text, unsigned size) { ACT(device); snprintf(text, size, "%s", text_of(device, key, fallback)); return SUCCESS; }
/* A call with the current and the pending value of a mode. */
#define MODE(function, key, fallback) \
    EXPORT int function(device_t device, unsigned *current, unsigned *pending) { \
        ACT(device); *current = *pending = (unsigned)number(device, key, fallback); return SUCCESS; }

EXPORT int nvmlInit_v2(void) { if (!load()) return DRIVER_NOT_LOADED; ACT(NULL); return SUCCESS; }
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
EXPORT int nvmlShutdown(void) { return SUCCESS; }
EXPORT const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size) { ACT(NULL); snprintf(text, size, "%s", text_of(NULL, "driver_version", "570.133.20")); return SUCCESS; }
EXPORT int nvmlSystemGetNVMLVersion(char *text, unsigned size) { ACT(NULL); snprintf(text, size, "%s", text_of(NULL, "nvml_version", "12.570.133.20")); return SUCCESS; }
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) { ACT(NULL); *version = (int)number(NULL, "cuda_driver_version", 12080); return SUCCESS; }
EXPORT int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
EXPORT int nvmlSystemGetProcessName(unsigned pid, char *text, unsigned size) { (void)pid; ACT(NULL); snprintf(text, size, "%s", text_of(NULL, "process_name", "python")); return SUCCESS; }

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) { ACT(NULL); *count = (unsigned)number(NULL, "gpu_count", 8); return SUCCESS; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    if (index >= MAX_GPUS || index >= number(NULL, "gpu_count", 8)) return INVALID_ARGUMENT;
    ACT(&devices[index]);
    *device = &devices[index];
    return SUCCESS;
}
UNSIGNED(nvmlDeviceGetIndex, "index", device->index)
TEXT(nvmlDeviceGetName, "name", "NVIDIA H100 80GB HBM3")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version", "96.00.99.00.01")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom_version", "G520.0200.00.05")
UNSIGNED(nvmlDeviceGetInforomConfigurationChecksum, "inforom_checksum", 0x1234)
EXPORT int nvmlDeviceGetGspFirmwareVersion(device_t device, char *text) { ACT(device); strcpy(text, text_of(device, "gsp_version", "570.133.20")); return SUCCESS; }
EXPORT int nvmlDeviceGetVirtualizationMode(device_t device, unsigned long long *mode) { ACT(device); *mode = number(device, "virtualization_mode", 0); return SUCCESS; }
struct confidential { unsigned environment, feature, tools; };
EXPORT int nvmlSystemGetConfComputeState(struct confidential *state) { ACT(NULL); *state = (struct confidential){0, (unsigned)number(NULL, "confidential_compute", 0), 0}; return SUCCESS; }
TEXT(nvmlDeviceGetSerial, "serial", "1650000000000")
EXPORT int nvmlDeviceGetUUID(device_t device, char *text, unsigned size) {
    ACT(device);
    snprintf(text, size, "GPU-00000000-0000-0000-0000-%012d", device->index);
    return SUCCESS;
}
UNSIGNED(nvmlDeviceGetMinorNumber, "minor_number", device->index)

struct pci_info { char bus_id_legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
static void pci_info(struct pci_info *info, const char *bus_id) {
    memset(info, 0, sizeof *info);
    sscanf(bus_id, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    info->device_id = (unsigned)number(NULL, "pci_device_id", 0x233010de);
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff, info->device & 0x1f);
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff, info->device & 0x1f);
}
EXPORT int nvmlDeviceGetPciInfo_v3(device_t device, struct pci_info *info) {
    char bus_id[32];
    ACT(device);
    snprintf(bus_id, sizeof bus_id, "0000:%02x:00.0", 0x1b + 0x10 * device->index);
    pci_info(info, text_of(device, "pci_bus_id", bus_id));
    return SUCCESS;
}

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
EXPORT int nvmlDeviceGetMemoryInfo(device_t device, struct memory *memory) {
    ACT(device);
    memory->total = number(device, "memory_bytes", 85520809984ULL);
    memory->used = number(device, "memory_used_bytes", 0);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *memory) {
    ACT(device);
    memory->total = number(device, "memory_bytes", 85520809984ULL);
    memory->reserved = number(device, "memory_reserved_bytes", 0);
    memory->used = number(device, "memory_used_bytes", 0);
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor) {
    ACT(device);
    *major = (int)number(device, "compute_capability_major", 9);
    *minor = (int)number(device, "compute_capability_minor", 0);
    return SUCCESS;
}
UNSIGNED(nvmlDeviceGetNumGpuCores, "gpu_cores", 16896)
UNSIGNED(nvmlDeviceGetNumaNodeId, "gpu_numa_node", 0)
EXPORT int nvmlDeviceGetCpuAffinity(device_t device, unsigned words, unsigned long *mask) {
    ACT(device);
    unsigned cpus = (unsigned)number(device, "cpus_per_node", 56), gpus = (unsigned)number(NULL, "gpu_count", 8);
    unsigned node = (unsigned)number(device, "numa_node", gpus > 1 ? (unsigned)device->index * 2 / gpus : 0);
    memset(mask, 0, words * sizeof *mask);
    for (unsigned cpu = node * cpus; cpu < (node + 1) * cpus && cpu / 64 < words; cpu++) mask[cpu / 64] |= 1UL << (cpu % 64);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMemoryAffinity(device_t device, unsigned words, unsigned long *mask, unsigned scope) {
    (void)scope;
    ACT(device);
    unsigned gpus = (unsigned)number(NULL, "gpu_count", 8);
    memset(mask, 0, words * sizeof *mask);
    if (words) mask[0] = 1UL << number(device, "numa_node", gpus > 1 ? (unsigned)device->index * 2 / gpus : 0);
    return SUCCESS;
}

UNSIGNED(nvmlDeviceGetPersistenceMode, "persistence_mode", 1)
UNSIGNED(nvmlDeviceGetComputeMode, "compute_mode", 0)
UNSIGNED(nvmlDeviceGetPerformanceState, "performance_state", 0)
MODE(nvmlDeviceGetEccMode, "ecc_mode", 1)
MODE(nvmlDeviceGetMigMode, "mig_mode", 0)
EXPORT int nvmlDeviceGetTotalEccErrors(device_t device, int kind, int counter, unsigned long long *count) {
    (void)counter;
    ACT(device);
    *count = number(device, kind ? "ecc_uncorrected" : "ecc_corrected", 0);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetRemappedRows(device_t device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ACT(device);
    *corrected = (unsigned)number(device, "remapped_corrected", 0);
    *uncorrected = (unsigned)number(device, "remapped_uncorrected", 0);
    *pending = (unsigned)number(device, "remapped_pending", 0);
    *failed = (unsigned)number(device, "remapped_failed", 0);
    return SUCCESS;
}
struct histogram { unsigned max, high, partial, low, none; };
EXPORT int nvmlDeviceGetRowRemapperHistogram(device_t device, struct histogram *banks) {
    ACT(device);
    *banks = (struct histogram){(unsigned)number(device, "banks_max", 3200), 0, 0, 0, (unsigned)number(device, "banks_none", 0)};
    return SUCCESS;
}
struct sram { unsigned version; unsigned long long aggregate_parity, aggregate_secded, aggregate_corrected, volatile_parity, volatile_secded, volatile_corrected, buckets[5]; unsigned exceeded; };
EXPORT int nvmlDeviceGetSramEccErrorStatus(device_t device, struct sram *errors) {
    ACT(device);
    errors->aggregate_secded = number(device, "sram_uncorrected", 0);
    errors->exceeded = (unsigned)number(device, "sram_threshold_exceeded", 0);
    return SUCCESS;
}
UNSUPPORTED(nvmlDeviceGetRetiredPagesPendingStatus)
UNSUPPORTED(nvmlDeviceGetFanSpeed)

EXPORT int nvmlDeviceGetTemperature(device_t device, unsigned sensor, unsigned *value) { (void)sensor; ACT(device); *value = (unsigned)number(device, "temperature_c", 34); return SUCCESS; }
struct temperature { unsigned version; int sensor; int value; };
EXPORT int nvmlDeviceGetTemperatureV(device_t device, struct temperature *temperature) { ACT(device); temperature->value = (int)number(device, "temperature_c", 34); return SUCCESS; }
struct margin { unsigned version; int celsius; };
EXPORT int nvmlDeviceGetMarginTemperature(device_t device, struct margin *margin) { ACT(device); margin->celsius = (int)number(device, "temperature_margin_c", 53); return SUCCESS; }
EXPORT int nvmlDeviceGetTemperatureThreshold(device_t device, unsigned kind, unsigned *value) { (void)kind; ACT(device); *value = (unsigned)number(device, "temperature_threshold_c", 90); return SUCCESS; }
EXPORT int nvmlDeviceGetApplicationsClock(device_t device, unsigned kind, unsigned *mhz) { ACT(device); *mhz = kind == 2 ? 2619 : (unsigned)number(device, "application_clock_mhz", 1980); return SUCCESS; }
EXPORT int nvmlDeviceGetDefaultApplicationsClock(device_t device, unsigned kind, unsigned *mhz) { ACT(device); *mhz = kind == 2 ? 2619 : 1980; return SUCCESS; }
UNSIGNED(nvmlDeviceGetPowerUsage, "power_mw", 71000)
UNSIGNED(nvmlDeviceGetPowerManagementLimit, "power_limit_mw", 700000)
UNSIGNED(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default_mw", 700000)
UNSIGNED(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw", 700000)
EXPORT int nvmlDeviceGetClockInfo(device_t device, unsigned kind, unsigned *mhz) { ACT(device); *mhz = kind == 2 ? 2619 : (unsigned)number(device, "sm_clock_mhz", 345); return SUCCESS; }
EXPORT int nvmlDeviceGetMaxClockInfo(device_t device, unsigned kind, unsigned *mhz) { ACT(device); *mhz = kind == 2 ? 2619 : (unsigned)number(device, "sm_clock_max_mhz", 1980); return SUCCESS; }
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(device_t device, unsigned long long *reasons) { ACT(device); *reasons = number(device, "clock_event_reasons", 1); return SUCCESS; }
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(device_t device, unsigned long long *reasons) { ACT(device); *reasons = number(device, "clock_event_reasons", 1); return SUCCESS; }
struct utilization { unsigned gpu, memory; };
EXPORT int nvmlDeviceGetUtilizationRates(device_t device, struct utilization *rates) {
    ACT(device);
    rates->gpu = (unsigned)number(device, "utilization_percent", 0);
    rates->memory = (unsigned)number(device, "memory_utilization_percent", 0);
    return SUCCESS;
}
static int codec(device_t device, const char *key, unsigned *percent, unsigned *period_us) {
    *percent = (unsigned)number(device, key, 0);
    *period_us = 167000;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetEncoderUtilization(device_t device, unsigned *percent, unsigned *period_us) { ACT(device); return codec(device, "encoder_utilization", percent, period_us); }
EXPORT int nvmlDeviceGetDecoderUtilization(device_t device, unsigned *percent, unsigned *period_us) { ACT(device); return codec(device, "decoder_utilization", percent, period_us); }
UNSIGNED(nvmlDeviceGetDisplayActive, "display_active", 0)
EXPORT int nvmlDeviceGetDriverModel(device_t device, int *current, int *pending) { (void)current; (void)pending; ACT(device); return NOT_SUPPORTED; }

UNSIGNED(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation", 5)
UNSIGNED(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max", 5)
UNSIGNED(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 16)
UNSIGNED(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 16)
UNSIGNED(nvmlDeviceGetPcieReplayCounter, "pcie_replays", 0)

/* NVLink: `nvlink_count` links to switches (nvlink_remote_type 2) or, with 0, to the GPU at `nvlink_remote`. */
#define LINK(device, link) do { if ((link) >= number(device, "nvlink_count", 18)) return INVALID_ARGUMENT; } while (0)
EXPORT int nvmlDeviceGetNvLinkState(device_t device, unsigned link, unsigned *active) {
    char key[32];
    ACT(device);
    if (!number(device, "nvlink_count", 18)) return NOT_SUPPORTED;
    LINK(device, link);
    snprintf(key, sizeof key, "nvlink%u", link);
    *active = (unsigned)number(device, key, 1);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetNvLinkVersion(device_t device, unsigned link, unsigned *version) { ACT(device); LINK(device, link); *version = (unsigned)number(device, "nvlink_version", 4); return SUCCESS; }
EXPORT int nvmlDeviceGetNvLinkCapability(device_t device, unsigned link, unsigned capability, unsigned *value) { (void)capability; ACT(device); LINK(device, link); *value = 1; return SUCCESS; }
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(device_t device, unsigned link, unsigned *kind) { ACT(device); LINK(device, link); *kind = (unsigned)number(device, "nvlink_remote_type", 2); return SUCCESS; }
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t device, unsigned link, struct pci_info *info) {
    char switch_bus_id[32];
    ACT(device);
    LINK(device, link);
    snprintf(switch_bus_id, sizeof switch_bus_id, "0000:%02x:00.0", 5 + link % 4);
    pci_info(info, text_of(device, "nvlink_remote", switch_bus_id));
    return SUCCESS;
}
EXPORT int nvmlDeviceGetNvLinkErrorCounter(device_t device, unsigned link, unsigned counter, unsigned long long *value) { (void)counter; ACT(device); LINK(device, link); *value = 0; return SUCCESS; }

struct fabric_info { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; };
struct fabric_info_v2 { unsigned version; unsigned char cluster[16]; int status; unsigned clique; unsigned char state; unsigned health; };
EXPORT int nvmlDeviceGetGpuFabricInfo(device_t device, struct fabric_info *info) {
    ACT(device);
    memset(info, 0, sizeof *info);
    info->state = (unsigned char)number(device, "fabric_state", 3);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetGpuFabricInfoV(device_t device, struct fabric_info_v2 *info) {
    ACT(device);
    info->status = SUCCESS;
    info->state = (unsigned char)number(device, "fabric_state", 3);
    return SUCCESS;
}

/* Distance between two GPUs: `topology0-4 = 50`, else 40 in one half of the machine and 50 across. */
EXPORT int nvmlDeviceGetTopologyCommonAncestor(device_t a, device_t b, unsigned *level) {
    char key[32];
    ACT(a);
    unsigned half = ((unsigned)number(NULL, "gpu_count", 8) + 1) / 2;
    int low = a->index < b->index ? a->index : b->index, high = a->index < b->index ? b->index : a->index;
    snprintf(key, sizeof key, "topology%d-%d", low, high);
    *level = (unsigned)number(NULL, key, (unsigned)a->index / half == (unsigned)b->index / half ? 40 : 50);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetP2PStatus(device_t a, device_t b, int capability, int *status) { (void)b; (void)capability; ACT(a); *status = (int)number(NULL, "p2p_status", 0); return SUCCESS; }

/* One process on a GPU: `gpu0.process_id` and `gpu0.process_memory_bytes`. */
struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
static int processes(device_t device, unsigned *count, struct process *list) {
    unsigned room = *count, pid = (unsigned)number(device, "process_id", 0);
    *count = pid ? 1 : 0;
    if (room < *count) return INSUFFICIENT_SIZE;
    if (pid) *list = (struct process){pid, number(device, "process_memory_bytes", 1ULL << 30), ~0u, ~0u};
    return SUCCESS;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned *count, struct process *list) { ACT(device); return processes(device, count, list); }
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(device_t device, unsigned *count, struct process *list) { ACT(device); return processes(device, count, list); }
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t device, unsigned *count, struct process *list) { (void)list; ACT(device); *count = 0; return SUCCESS; }

/* Fields of a healthy GPU: totals of ECC errors, memory temperature, PCIe replays, T.Limits, recovery action, NVLink errors,
   times that clocks were held down. A scenario overrides one with `field230 = 1`, and makes one unsupported with `field230 = no`. */
static int field_default(unsigned field, long long *value) {
    static const struct { unsigned field; long long value; } defaults[] = {
        {5, 0}, {6, 0}, {74, 0}, {76, 0}, {82, 38}, {94, 0}, {188, 700000}, {192, 700000}, {193, -8}, {194, -2}, {196, 0},
        {161, 0}, {162, 0}, {163, 0}, {230, 0}, {269, 0}, {270, 0}, {271, 0}};
    for (unsigned i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (defaults[i].field == field) return *value = defaults[i].value, 1;
    return 0;
}
struct field_value { unsigned field, scope; long long timestamp, latency; unsigned kind; int result; unsigned long long value; };
EXPORT int nvmlDeviceGetFieldValues(device_t device, int count, struct field_value *values) {
    ACT(device);
    for (int i = 0; i < count; i++) {
        char key[32];
        snprintf(key, sizeof key, "field%u", values[i].field);
        long long fallback = 0;
        const char *text = text_of(device, key, NULL);
        int known = text ? strcmp(text, "no") != 0 : field_default(values[i].field, &fallback);
        values[i].result = known ? SUCCESS : NOT_SUPPORTED;
        values[i].kind = fallback < 0 ? 4 : 3; /* signed or unsigned long long */
        values[i].value = text ? number(device, key, 0) : (unsigned long long)fallback;
    }
    return SUCCESS;
}
