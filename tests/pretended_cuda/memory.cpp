// Devices and their memory.
#include <sys/mman.h>

#include "runtime.h"

// Devices

ANSWER cudaError_t cudaGetDeviceCount(int* number) {
    *number = state().devices;
    DONE;
}
ANSWER cudaError_t cudaGetDevice(int* device) {
    *device = state().current;
    DONE;
}
ANSWER cudaError_t cudaSetDevice(int device) {
    state().current = device;
    open_context();
    DONE;
}
ANSWER cudaError_t cudaDriverGetVersion(int* version) {
    *version = 13000;
    DONE;
}
ANSWER cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = 13000;
    DONE;
}
ANSWER cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int device) {
    memset(found, 0, sizeof *found);
    strcpy(found->name, "Pretended GPU");
    found->uuid.bytes[0] = device + 1;
    found->totalGlobalMem = state().limit;
    found->major = 9, found->warpSize = 32, found->multiProcessorCount = 132;
    found->maxThreadsPerBlock = found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024, found->maxThreadsDim[2] = 64;
    found->maxGridSize[0] = 2147483647, found->maxGridSize[1] = found->maxGridSize[2] = 65535;
    found->maxThreadsPerMultiProcessor = 2048, found->maxBlocksPerMultiProcessor = 32;
    found->regsPerBlock = found->regsPerMultiprocessor = 65536;
    found->sharedMemPerBlock = 49152, found->sharedMemPerMultiprocessor = 233472, found->sharedMemPerBlockOptin = 232448;
    found->l2CacheSize = 50 << 20, found->unifiedAddressing = found->managedMemory = 1;
    DONE;
}
ANSWER cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
    static const std::map<int, int> known = {
        {cudaDevAttrComputeCapabilityMajor, 9},         {cudaDevAttrComputeCapabilityMinor, 0},
        {cudaDevAttrMultiProcessorCount, 132},          {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxThreadsPerBlock, 1024},          {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
        {cudaDevAttrMaxBlocksPerMultiprocessor, 32},    {cudaDevAttrMaxRegistersPerBlock, 65536},
        {cudaDevAttrMaxSharedMemoryPerBlock, 49152},    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 233472},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, 232448}, {cudaDevAttrMaxGridDimX, 2147483647},
        {cudaDevAttrMaxGridDimY, 65535},                {cudaDevAttrMaxGridDimZ, 65535},
        {cudaDevAttrMaxBlockDimX, 1024},                {cudaDevAttrMaxBlockDimY, 1024},
        {cudaDevAttrMaxBlockDimZ, 64},
    };
    auto found = known.find(which);
    *value = found == known.end() ? 1 : found->second;
    DONE;
}
ANSWER cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0, *greatest = -5;
    DONE;
}
ANSWER cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
    snprintf(text, size, "0000:%02x:00.0", device + 1);
    DONE;
}
ANSWER cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
    *can = 0;
    DONE;
}
ANSWER cudaError_t cudaDeviceSynchronize() { return wait("for the device"); }

// Memory

static cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    std::string way = {side(from), side(to)};
    if (stream_of(stream)->capture && way.find('H') != std::string::npos) note("forbidden in a capture: pageable copy");
    if (launch(stream, "copy " + way)) memmove(to, from, bytes);
    DONE;
}

ANSWER cudaError_t cudaMalloc(void** address, size_t bytes) {
    Locked held(state().lock);
    *address = nullptr;
    if (forbidden("cudaMalloc")) return fail(cudaErrorStreamCaptureUnsupported);
    open_context();
    if (state().used + bytes > state().limit) return fail(cudaErrorMemoryAllocation);
    auto found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) return fail(cudaErrorMemoryAllocation);
    *address = found;
    state().device[reinterpret_cast<uintptr_t>(found)] = bytes;
    state().used += bytes;
    state().peak = std::max(state().peak, state().used);
    DONE;
}
ANSWER cudaError_t cudaFree(void* address) {
    Locked held(state().lock);
    if (forbidden("cudaFree")) return fail(cudaErrorStreamCaptureUnsupported);
    auto found = state().device.find(reinterpret_cast<uintptr_t>(address));
    if (found == state().device.end()) DONE;
    munmap(address, found->second);
    state().used -= found->second;
    state().device.erase(found);
    DONE;
}
ANSWER cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
    Locked held(state().lock);
    if (posix_memalign(address, 4096, std::max<size_t>(bytes, 1))) return fail(cudaErrorMemoryAllocation);
    state().pinned[reinterpret_cast<uintptr_t>(*address)] = bytes;
    DONE;
}
ANSWER cudaError_t cudaFreeHost(void* address) {
    Locked held(state().lock);
    state().pinned.erase(reinterpret_cast<uintptr_t>(address));
    free(address);
    DONE;
}
ANSWER cudaError_t cudaMemGetInfo(size_t* left, size_t* all) {
    *all = state().limit, *left = state().limit - state().used;
    DONE;
}
ANSWER cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* pointer) {
    memset(found, 0, sizeof *found);
    auto where = side(pointer);
    found->type = where == 'D' ? cudaMemoryTypeDevice : where == 'P' ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    if (where != 'H') found->devicePointer = const_cast<void*>(pointer);
    if (where == 'P') found->hostPointer = const_cast<void*>(pointer);
    DONE;
}
ANSWER cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    return copy(to, from, bytes, stream);
}
ANSWER cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    if (auto error = wait("for a copy")) return error;
    return copy(to, from, bytes, nullptr);
}
ANSWER cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    if (launch(stream, "fill")) memset(to, value, bytes);
    DONE;
}
ANSWER cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
