// Streams, events, captures.
#include "runtime.h"

// Streams, events

static cudaError_t new_stream(cudaStream_t* made) {
    *made = reinterpret_cast<cudaStream_t>(new Stream);
    DONE;
}
ANSWER cudaError_t cudaStreamCreate(cudaStream_t* made) { return new_stream(made); }
ANSWER cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned) { return new_stream(made); }
ANSWER cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned, int) { return new_stream(made); }
ANSWER cudaError_t cudaStreamGetPriority(cudaStream_t, int* found) {
    *found = 0;
    DONE;
}
ANSWER cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    if (auto capture = stream_of(handle)->capture) {
        capture->broken = true;
        note("forbidden in a capture: to wait for its stream");
        return fail(cudaErrorStreamCaptureUnsupported);
    }
    return wait("for a stream");
}
ANSWER cudaError_t cudaStreamQuery(cudaStream_t handle) {
    if (!stream_of(handle)->capture) DONE;
    note("forbidden in a capture: to look at its stream");
    return fail(cudaErrorStreamCaptureUnsupported);
}
ANSWER cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
    *made = reinterpret_cast<cudaEvent_t>(new Event);
    DONE;
}
ANSWER cudaError_t cudaEventCreate(cudaEvent_t* made) { return cudaEventCreateWithFlags(made, 0); }
ANSWER cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete reinterpret_cast<Event*>(event);
    DONE;
}
ANSWER cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    reinterpret_cast<Event*>(event)->capture = stream_of(stream)->capture;
    DONE;
}
ANSWER cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }
ANSWER cudaError_t cudaEventSynchronize(cudaEvent_t) { return wait("for an event"); }
ANSWER cudaError_t cudaEventQuery(cudaEvent_t) {
    if (forbidden("cudaEventQuery")) return fail(cudaErrorStreamCaptureUnsupported);
    DONE;
}
ANSWER cudaError_t cudaEventElapsedTime(float* found, cudaEvent_t, cudaEvent_t) {
    *found = 1;
    DONE;
}
ANSWER cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (auto capture = reinterpret_cast<Event*>(event)->capture) stream_of(stream)->capture = capture;  // it joins the capture
    DONE;
}

// Captures and graphs: a graph is the number of its nodes

ANSWER cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* given) {
    std::swap(*given, mode);
    DONE;
}
ANSWER cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
    Locked held(state().lock);
    if (stream_of(handle) == &state().first) return fail(cudaErrorStreamCaptureUnsupported);
    stream_of(handle)->capture = new Capture{++state().captures};
    state().capturing++;
    DONE;
}
ANSWER cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
    Locked held(state().lock);
    auto capture = stream_of(handle)->capture;
    *made = nullptr;
    if (!capture) return fail(cudaErrorIllegalState);
    stream_of(handle)->capture = nullptr;
    state().capturing--;
    if (capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
    *made = reinterpret_cast<cudaGraph_t>(new int(capture->nodes));
    DONE;
}
ANSWER cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* found) {
    *found = stream_of(handle)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    DONE;
}
ANSWER cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* found, unsigned long long* id,
                                            cudaGraph_t* graph, const cudaGraphNode_t** before, const cudaGraphEdgeData** edges,
                                            size_t* number) {
    auto capture = stream_of(handle)->capture;
    cudaStreamIsCapturing(handle, found);
    if (!capture) DONE;
    if (id) *id = capture->id;
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(&capture->nodes);
    if (before) *before = nullptr;
    if (edges) *edges = nullptr;
    if (number) *number = 0;
    DONE;
}
ANSWER cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    *made = reinterpret_cast<cudaGraphExec_t>(new int(*reinterpret_cast<int*>(graph)));
    DONE;
}
ANSWER cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* number) {
    *number = *reinterpret_cast<int*>(graph);
    DONE;
}
ANSWER cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    launch(stream, "graph of " + std::to_string(*reinterpret_cast<int*>(graph)));
    DONE;
}
