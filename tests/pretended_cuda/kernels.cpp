// For the tests; kernels; errors; cuBLAS and cuDNN; the driver.
#include "runtime.h"

// For the tests

ANSWER void pretended_note(int on) {
    Locked held(state().lock);
    state().noting = on;
    if (on) state().notes.clear();
}
ANSWER int pretended_notes() { return state().notes.size(); }
ANSWER const char* pretended_read(int number) { return state().notes[number].c_str(); }
ANSWER void pretended_unanswered(const char* name) { note(std::string("unanswered ") + name); }
ANSWER void pretended_kernel(const char* name, void* stream) { launch(static_cast<cudaStream_t>(stream), name); }
ANSWER int pretended_context(int device) { return state().contexts.count(device); }
ANSWER void pretended_limit(size_t bytes) { state().limit = bytes; }
ANSWER size_t pretended_peak() {  // since the last call
    auto found = state().peak;
    state().peak = state().used;
    return found;
}

// Kernels: they have names and do nothing

ANSWER void** __cudaRegisterFatBinary(void*) {
    static void* handle;
    return &handle;
}
ANSWER void __cudaRegisterFatBinaryEnd(void**) {}
ANSWER void __cudaUnregisterFatBinary(void**) {}
ANSWER char __cudaInitModule(void**) { return 1; }
ANSWER void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
ANSWER void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    Locked held(state().lock);
    state().kernels[host] = name;
}
ANSWER cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
    DONE;
}
static cudaError_t start(const void* host, cudaStream_t stream) {
    Locked held(state().lock);
    auto known = state().kernels.find(host);
    launch(stream, known == state().kernels.end() ? "kernel" : known->second);
    DONE;
}
ANSWER cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t stream) {
    return start(kernel, stream);
}
ANSWER cudaError_t cudaLaunchKernel(const void* host, dim3, dim3, void**, size_t, cudaStream_t stream) { return start(host, stream); }
ANSWER cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* host, void**) { return start(host, how->stream); }

struct Configuration {
    dim3 grid, block;
    size_t shared;
    void* stream;
};
static thread_local Configuration pushed;
ANSWER unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* stream) {
    pushed = {grid, block, shared, stream};
    return 0;
}
ANSWER cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *static_cast<void**>(stream) = pushed.stream;
    DONE;
}
ANSWER cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void*) {
    memset(found, 0, sizeof *found);
    found->maxThreadsPerBlock = 1024, found->numRegs = 32, found->ptxVersion = found->binaryVersion = 90;
    DONE;
}
ANSWER cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
    *blocks = 2;
    DONE;
}
ANSWER cudaError_t cudaGetSymbolAddress(void** address, const void*) {
    static char room[1 << 16];
    *address = room;
    DONE;
}

// Errors

ANSWER cudaError_t cudaGetLastError() {
    auto found = last;
    last = cudaSuccess;
    return found;
}
ANSWER cudaError_t cudaPeekAtLastError() { return last; }
ANSWER const char* cudaGetErrorString(cudaError_t error) {
    static thread_local char text[64];
    snprintf(text, sizeof text, "pretended CUDA error %d", error);
    return text;
}
ANSWER const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

// The driver, which torch reaches through the runtime

ANSWER CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    *flags = 0, *active = state().contexts.count(device);
    return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGet(CUdevice* found, int number) {
    *found = number;
    return CUDA_SUCCESS;
}
ANSWER CUresult cuCtxGetCurrent(CUcontext* found) {
    *found = reinterpret_cast<CUcontext>(1);
    return CUDA_SUCCESS;
}
ANSWER CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
    *value = 0;
    return CUDA_SUCCESS;
}
ANSWER CUresult cuGetErrorString(CUresult, const char** text) {
    *text = "pretended";
    return CUDA_SUCCESS;
}
static CUresult nothing() { return CUDA_SUCCESS; }
ANSWER cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* result) {
    static const std::map<std::string, void*> known = {
        {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(cuDevicePrimaryCtxGetState)},
        {"cuDeviceGet", reinterpret_cast<void*>(cuDeviceGet)},
        {"cuCtxGetCurrent", reinterpret_cast<void*>(cuCtxGetCurrent)},
        {"cuDeviceGetAttribute", reinterpret_cast<void*>(cuDeviceGetAttribute)},
        {"cuGetErrorString", reinterpret_cast<void*>(cuGetErrorString)},
    };
    auto entry = known.find(name);
    *found = entry == known.end() ? reinterpret_cast<void*>(nothing) : entry->second;
    if (result) *result = cudaDriverEntryPointSuccess;
    DONE;
}

// cuBLAS: a product is one kernel. cuDNN: so is a batch normalisation; its convolutions are stood in for in Python

static int made(void** handle) {
    *handle = malloc(8);
    return 0;
}
ANSWER int cublasCreate_v2(void** handle) { return made(handle); }
ANSWER int cudnnCreate(void** handle) { return made(handle); }
ANSWER size_t cudnnGetVersion() { return 92000; }
ANSWER size_t cudnnGetCudartVersion() { return 13000; }
ANSWER int cublasSetStream_v2(void*, cudaStream_t stream) {
    state().blas = stream;
    return 0;
}
ANSWER int cublasGetMathMode(void*, int* found) { return *found = 0; }
ANSWER int cublasGetPointerMode_v2(void*, int* found) { return *found = 0; }
ANSWER int cublasLtMatmulDescCreate(void** handle, int, int) { return made(handle); }
ANSWER int cublasLtMatrixLayoutCreate(void** handle, int, uint64_t, uint64_t, int64_t) { return made(handle); }
ANSWER int cublasLtMatmulPreferenceCreate(void** handle) { return made(handle); }
ANSWER size_t cublasLtGetVersion() { return 130100; }
ANSWER int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void* found, int* number) {
    memset(found, 0, 64);
    return *number = 1, 0;
}
ANSWER int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*,
                          void*, const void*, void*, size_t, cudaStream_t stream) {
    launch(stream, "product");
    return 0;
}
ANSWER int cudnnSetStream(void*, cudaStream_t stream) {
    state().dnn = stream;
    return 0;
}
ANSWER int cudnnCreateTensorDescriptor(void** handle) { return made(handle); }
ANSWER int cudnnCreateActivationDescriptor(void** handle) { return made(handle); }
ANSWER int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int, int, void*, void*, void*, void*, void*, size_t* bytes) {
    return *bytes = 0, 0;
}
ANSWER int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int, int, void*, void*, void*, void*, void*, void*, void*,
                                                             size_t* bytes) {
    return *bytes = 0, 0;
}
ANSWER int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int, int, void*, void*, size_t* bytes) { return *bytes = 0, 0; }
#define NORMALISATION(name) \
    ANSWER int name() { return launch(state().dnn, "batch normalisation"), 0; }
NORMALISATION(cudnnBatchNormalizationForwardTrainingEx)
NORMALISATION(cudnnBatchNormalizationForwardInference)
NORMALISATION(cudnnBatchNormalizationBackwardEx)
#define PRODUCT(name) \
    ANSWER int name() { return launch(state().blas, "product"), 0; }
PRODUCT(cublasSgemm_v2)
PRODUCT(cublasDgemm_v2)
PRODUCT(cublasSgemmStridedBatched)
PRODUCT(cublasDgemmStridedBatched)
PRODUCT(cublasSgemmBatched)
PRODUCT(cublasDgemmBatched)
PRODUCT(cublasGemmEx)
PRODUCT(cublasGemmStridedBatchedEx)
PRODUCT(cublasSgemmEx)
PRODUCT(cublasSgemv_v2)
PRODUCT(cublasDgemv_v2)
PRODUCT(cublasSdot_v2)
PRODUCT(cublasDdot_v2)
PRODUCT(cublasDotEx)
