/* A stand-in for NVIDIA's libnvidia-ml.so.1, so that the suite is tested through the real binding without a GPU.
 *
 * tests/monitor/test_nvml_library.py compiles it and lets pynvml load it. It has the functions that `suite.monitor.gpu` calls,
 * under their exported names, with the structures of nvml.h. Unlike the real library it forgives nothing: a wrong
 * structure version, an unknown handle, a short buffer, a GPM sample used after it was freed or never freed, a call
 * before nvmlInit or after nvmlShutdown print one line and end the process with status 86.
 *
 * With -DOLDER it is the library of an older driver, which lacks the newer of two calls where both are known.
 *
 * FAKE_NVML_DEVICES   number of devices (default 2)
 * FAKE_NVML_FORBIDDEN index of a device that this process may not use
 * FAKE_NVML_GPM       "none": the device has no GPM; "refused": it claims to have it and gives no sample;
 *                     "full": there is memory for one sample only
 * FAKE_NVML_MIG       "on": MIG is on, and what is told of whole devices only is refused; "none": it cannot be
 * FAKE_NVML_PROCESSES ids of the processes that compute on every device, with commas between them
 * FAKE_NVML_PCIE      lanes of the PCIe link (default 16); with fewer its generation is 4, of 5
 * FAKE_NVML_NVLINKS   number of NVLinks that are up, of 4 (default 4); with 0 the device has none
 * FAKE_NVML_TYPE      number of the type in which field values are told (default 1, an unsigned int)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, TOO_SMALL = 7, NO_MEMORY = 20 };
enum { DEVICES = 16, SAMPLES = 256, GPM_METRICS = 477, LONGEST = 96 };
enum { WATTS = 350, BUSY_WATTS = 300, POWER_CAP = 0x4 };

typedef struct { char nothing; } Device;
typedef struct { int taken, filled; Device *device; double at_s; } Sample;

typedef struct { unsigned version, sensor; int celsius; } Temperature;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { unsigned id, result; double value; char *names[3]; } GpmMetric;
typedef struct { unsigned version, count; Sample *first, *second; GpmMetric metrics[GPM_METRICS]; } GpmMetrics;
typedef union {
    double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; unsigned short us;
} Value;
typedef struct { unsigned id, scope; long long at, latency; unsigned type, result; Value value; } Field;

static Device devices[DEVICES];
static Sample samples[SAMPLES]; /* never used twice, so that what was freed is known for it */
static int opened, allocated, freed;

#define NEEDS(condition, ...) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "stand-in for NVML: %s: ", __func__); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            _exit(86); \
        } \
    } while (0)
#define OPEN() NEEDS(opened > 0, "called before nvmlInit or after nvmlShutdown")
#define VERSION(given, size, number) \
    NEEDS((given) == ((unsigned)(size) | (unsigned)(number) << 24), "structure version 0x%x", (given))
#define DEVICE(handle) \
    OPEN(); \
    NEEDS((handle) >= devices && (handle) < devices + device_count(), "unknown device %p", (void *)(handle))
#define SAMPLE(sample) \
    NEEDS((sample) >= samples && (sample) < samples + allocated, "unknown GPM sample %p", (void *)(sample)); \
    NEEDS((sample)->taken, "GPM sample used after it was freed")
#define GETS(name, type, ...) \
    int name(Device *device, type *told) { \
        DEVICE(device); \
        *told = (type)__VA_ARGS__; \
        return SUCCESS; \
    }
#define GETS_OF(name, kinds, answer) \
    int name(Device *device, unsigned kind, unsigned *told) { \
        DEVICE(device); \
        NEEDS(kinds, "no kind %u", kind); \
        *told = answer; \
        return SUCCESS; \
    }

static int is(const char *name, const char *value) {
    const char *given = getenv(name);
    return given && strcmp(given, value) == 0;
}

static int number(const char *name, int otherwise) {
    const char *given = getenv(name);
    return given && *given ? atoi(given) : otherwise;
}

static int device_count(void) { return number("FAKE_NVML_DEVICES", 2); }

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int text(char *buffer, unsigned size, const char *words) {
    NEEDS(buffer && size >= 64 && size <= LONGEST, "a buffer of %u bytes", size);
    NEEDS(strlen(words) < size, "\"%s\" in %u bytes", words, size);
    strcpy(buffer, words);
    return SUCCESS;
}

/* What NVML is, and which driver it belongs to */

int nvmlInitWithFlags(unsigned flags) {
    NEEDS(flags == 0, "flags 0x%x", flags);
    opened++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    OPEN();
    opened--;
    NEEDS(opened || allocated == freed, "%d of %d GPM samples were never freed", allocated - freed, allocated);
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code ? "a failure of the stand-in" : "Success"; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) { OPEN(); return text(version, size, "580.65.06"); }
int nvmlSystemGetCudaDriverVersion(int *version) { OPEN(); *version = 13010; return SUCCESS; }

/* Devices, and what does not change */

int nvmlDeviceGetCount_v2(unsigned *count) { OPEN(); *count = (unsigned)device_count(); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    OPEN();
    if (index >= (unsigned)device_count()) return INVALID_ARGUMENT;
    if ((int)index == number("FAKE_NVML_FORBIDDEN", -1)) return NO_PERMISSION;
    *device = devices + index;
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned size) {
    char words[LONGEST];
    DEVICE(device);
    snprintf(words, sizeof words, "GPU-%08d-0000-0000-0000-000000000000", (int)(device - devices));
    return text(uuid, size, words);
}

int nvmlDeviceGetName(Device *device, char *name, unsigned size) {
    DEVICE(device);
    return text(name, size, "NVIDIA Stand-in 80GB");
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    DEVICE(device);
    *major = 9, *minor = 0;
    return SUCCESS;
}

GETS(nvmlDeviceGetEnforcedPowerLimit, unsigned, 700000)
GETS(nvmlDeviceGetPersistenceMode, unsigned, 1)
GETS_OF(nvmlDeviceGetMaxClockInfo, kind == 1, 1980)

/* How devices are linked. The first two are near to NUMA node 0, the next two to node 1, and so on. */

static int lanes(void) { return number("FAKE_NVML_PCIE", 16); }

GETS(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, (lanes() < 16 ? 4 : 5))
GETS(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, 5)
GETS(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, 5)
GETS(nvmlDeviceGetCurrPcieLinkWidth, unsigned, lanes())
GETS(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)

int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *up) {
    int known = number("FAKE_NVML_NVLINKS", 4);
    DEVICE(device);
    if (!known) return NOT_SUPPORTED;
    if (link >= 4) return INVALID_ARGUMENT;
    *up = (int)link < known;
    return SUCCESS;
}

int nvmlDeviceGetMemoryAffinity(Device *device, unsigned words, unsigned long *nodes, unsigned scope) {
    DEVICE(device);
    NEEDS(words > 0 && scope == 0, "%u words of scope %u", words, scope);
    memset(nodes, 0, words * sizeof *nodes);
    nodes[0] = 1ul << (device - devices) / 2;
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(Device *device, Device *peer, unsigned kind, unsigned *status) {
    DEVICE(device);
    DEVICE(peer);
    NEEDS(kind == 2 && device != peer, "kind %u", kind);
    *status = number("FAKE_NVML_NVLINKS", 4) ? 0 : 5;
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(Device *device, Device *peer, unsigned *level) {
    DEVICE(device);
    DEVICE(peer);
    NEEDS(device != peer, "one device");
    *level = (device - devices) / 2 == (peer - devices) / 2 ? 30 : 50;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    DEVICE(device);
    if (is("FAKE_NVML_MIG", "none")) return NOT_SUPPORTED;
    *current = is("FAKE_NVML_MIG", "on"), *pending = 0;
    return SUCCESS;
}

/* Readings */

GETS(nvmlDeviceGetMemoryInfo, Memory, {80ull << 30, 79ull << 30, 1ull << 30})
GETS(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, (1e3 * BUSY_WATTS * now_s()))
GETS(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, POWER_CAP)
GETS_OF(nvmlDeviceGetClockInfo, kind == 1 || kind == 2, kind == 1 ? 1755 : 2619)
GETS_OF(nvmlDeviceGetPcieThroughput, kind <= 1, kind ? 2000 : 1000)
GETS_OF(nvmlDeviceGetTemperature, kind == 0, 54)

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *rates) {
    DEVICE(device);
    if (is("FAKE_NVML_MIG", "on")) return NOT_SUPPORTED;
    *rates = (Utilization){90, 40};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *memory) {
    DEVICE(device);
    VERSION(memory->version, sizeof *memory, 2);
    memory->total = 80ull << 30, memory->reserved = 0, memory->free = 79ull << 30, memory->used = 1ull << 30;
    return SUCCESS;
}

static int processes_of(Device *device, unsigned *count, Process *processes) {
    const char *given = getenv("FAKE_NVML_PROCESSES");
    unsigned found = 0, room = processes ? *count : 0;
    DEVICE(device);
    for (char *rest; given && *given; given = *rest ? rest + 1 : rest, found++) {
        unsigned pid = (unsigned)strtoul(given, &rest, 10);
        if (found < room) processes[found] = (Process){pid, 1ull << 28, ~0u, ~0u};
    }
    *count = found;
    return found > room ? TOO_SMALL : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, unsigned *count, Process *processes) {
    return processes_of(device, count, processes);
}

#ifndef OLDER
GETS(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, POWER_CAP)

int nvmlDeviceGetTemperatureV(Device *device, Temperature *temperature) {
    DEVICE(device);
    VERSION(temperature->version, sizeof *temperature, 1);
    NEEDS(temperature->sensor == 0, "sensor %u", temperature->sensor);
    temperature->celsius = 55;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *processes) {
    return processes_of(device, count, processes);
}
#endif

/* Bytes that the type does not use hold rubbish: whoever reads another member of the union sees it. */
static Value valued(unsigned type, double value) {
    Value found;
    memset(&found, 0xA5, sizeof found);
    switch (type) {
    case 0: found.d = value; break;
    case 1: found.ui = (unsigned)value; break;
    case 2: found.ul = (unsigned long)value; break;
    case 3: found.ull = (unsigned long long)value; break;
    case 4: found.sll = (long long)value; break;
    case 5: found.si = (int)value; break;
    case 6: found.us = (unsigned short)value; break;
    }
    return found;
}

int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    DEVICE(device);
    NEEDS(count > 0, "%d fields", count);
    for (Field *field = fields; field < fields + count; field++) {
        double value = field->id == 185 ? BUSY_WATTS * 1e3 : field->id == 186 ? WATTS * 1e3 : field->id == 82 ? 61 : 0;
        NEEDS(field->scope == 0, "scope %u", field->scope);
        field->result = value == 0 ? NOT_SUPPORTED : SUCCESS;
        field->type = (unsigned)number("FAKE_NVML_TYPE", 1);
        field->value = valued(field->type, value);
    }
    return SUCCESS;
}

/* GPM */

int nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *support) {
    DEVICE(device);
    NEEDS(support->version == 1, "structure version 0x%x", support->version);
    support->supported = !is("FAKE_NVML_GPM", "none");
    return SUCCESS;
}

int nvmlGpmSampleAlloc(Sample **sample) {
    OPEN();
    if (is("FAKE_NVML_GPM", "full") && allocated > freed) return NO_MEMORY;
    NEEDS(allocated < SAMPLES, "more than %d GPM samples", SAMPLES);
    *sample = samples + allocated++;
    (*sample)->taken = 1;
    return SUCCESS;
}

int nvmlGpmSampleFree(Sample *sample) {
    OPEN();
    SAMPLE(sample);
    sample->taken = 0;
    freed++;
    return SUCCESS;
}

int nvmlGpmSampleGet(Device *device, Sample *sample) {
    DEVICE(device);
    SAMPLE(sample);
    if (is("FAKE_NVML_GPM", "refused") || is("FAKE_NVML_MIG", "on")) return NOT_SUPPORTED;
    sample->filled = 1, sample->device = device, sample->at_s = now_s();
    return SUCCESS;
}

int nvmlGpmMetricsGet(GpmMetrics *asked) {
    OPEN();
    NEEDS(asked->version == 1, "structure version 0x%x", asked->version);
    NEEDS(asked->count > 0 && asked->count < GPM_METRICS, "%u metrics", asked->count);
    SAMPLE(asked->first);
    SAMPLE(asked->second);
    NEEDS(asked->first->filled && asked->second->filled, "a GPM sample that was never got");
    NEEDS(asked->first->device == asked->second->device, "GPM samples of two devices");
    NEEDS(asked->first->at_s < asked->second->at_s, "GPM samples in the wrong order");
    for (GpmMetric *metric = asked->metrics; metric < asked->metrics + asked->count; metric++) {
        NEEDS(metric->id > 0 && metric->id < GPM_METRICS, "GPM metric %u", metric->id);
        metric->result = metric->id == 13 ? NOT_SUPPORTED : SUCCESS;
        metric->value = metric->id;
    }
    return SUCCESS;
}
