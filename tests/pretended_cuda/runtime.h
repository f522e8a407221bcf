// CUDA's runtime, as far as torch's host code asks for it, on host memory: see __init__.py.
//
// A function stands here if its answer matters. All others that torch's libraries name are answered "done" by a stub that the
// build writes; a call of one is noted as `unanswered`.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#define ANSWER extern "C" __attribute__((visibility("default")))
#define DONE return cudaSuccess


struct Capture {
    unsigned long long id;
    int nodes = 0;
    bool broken = false;
};

struct Stream {
    Capture* capture = nullptr;
};

struct Event {
    Capture* capture = nullptr;  // in which it was recorded
};

using Memory = std::map<uintptr_t, size_t>;  // address -> bytes

// Never destroyed: torch still calls when the process ends.
struct State {
    std::recursive_mutex lock;
    std::vector<std::string> notes;
    bool noting = false;
    std::unordered_map<const void*, std::string> kernels;
    Memory device, pinned;
    size_t used = 0, peak = 0, limit = 80ull << 30;
    int devices = 1, current = 0;
    std::set<int> contexts;
    Stream first;  // CUDA's default stream, which cannot be captured
    int capturing = 0;
    unsigned long long captures = 0;
    cudaStream_t blas = nullptr, dnn = nullptr;
};

inline State& state() {
    static State* only = [] {
        auto made = new State;
        if (auto number = getenv("PRETENDED_DEVICES")) made->devices = atoi(number);
        return made;
    }();
    return *only;
}

inline thread_local cudaError_t last = cudaSuccess;
inline thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;

using Locked = std::lock_guard<std::recursive_mutex>;

inline cudaError_t fail(cudaError_t error) { return last = error; }

inline void note(const std::string& what) {
    Locked held(state().lock);
    if (state().noting) state().notes.push_back(what);
}

inline Stream* stream_of(cudaStream_t handle) {
    return reinterpret_cast<uintptr_t>(handle) <= 2 ? &state().first : reinterpret_cast<Stream*>(handle);
}

inline bool within(const Memory& memory, const void* pointer) {
    auto after = memory.upper_bound(reinterpret_cast<uintptr_t>(pointer));
    return after != memory.begin() && reinterpret_cast<uintptr_t>(pointer) < std::prev(after)->first + std::prev(after)->second;
}

inline char side(const void* pointer) {  // device, pinned host, pageable host
    Locked held(state().lock);
    return within(state().device, pointer) ? 'D' : within(state().pinned, pointer) ? 'P' : 'H';
}

// What is put into a stream: noted, and part of the graph while the stream is captured. True: it is to be done now.
inline bool launch(cudaStream_t handle, const std::string& what) {
    Locked held(state().lock);
    if (auto capture = stream_of(handle)->capture) {
        capture->nodes++;
        note("node " + what);
        return false;
    }
    note((state().capturing ? "beside a capture: " : "launch ") + what);
    return true;
}

// What no thread may do while any stream is captured, unless it said otherwise (torch's allocator does).
inline bool forbidden(const char* what) {
    if (!state().capturing || mode == cudaStreamCaptureModeRelaxed) return false;
    note(std::string("forbidden in a capture: ") + what);
    return true;
}

inline cudaError_t wait(const char* what) {
    if (forbidden(what)) return fail(cudaErrorStreamCaptureUnsupported);
    note(std::string("wait ") + what);
    DONE;
}

inline void open_context() {
    Locked held(state().lock);
    state().contexts.insert(state().current);
}
