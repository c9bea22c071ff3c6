// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/words.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace msstream::overlap {
namespace {

/// The advice about a cause, for each framework. An empty text means that of CUDA.
struct Advice {
  Cause cause;
  std::string_view cuda;
  std::string_view pytorch = {};
  std::string_view msstream = {};
};

constexpr std::array<Advice, kCauses> kAdvice{{
    {Cause::recording_overhead,
     "Record less: fewer kinds, no call stacks, a shorter window. The program itself is faster.",
     "Record with with_stack=False and profile_memory=False, after warm-up steps of the profiler."},
    {Cause::lazy_loading,
     "Run every kernel once before the part that counts, or set CUDA_MODULE_LOADING=EAGER, and "
     "keep compiled kernels (CUDA_CACHE_MAXSIZE).",
     "Run warm-up steps first, with the shapes that come later; measure after them. "
     "CUDA_MODULE_LOADING=EAGER loads all kernels at the start.",
     "Run one step before the measurement, or capture the step after a warm-up."},
    {Cause::driver_allocation,
     "Allocate once, before the loop, or use cudaMallocAsync() with a pool that keeps its memory "
     "(cudaMemPoolAttrReleaseThreshold). cudaFree() and cudaFreeHost() wait for the device.",
     "Keep shapes equal, so that the caching allocator finds its blocks again; set "
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; avoid torch.cuda.empty_cache() in the "
     "loop.",
     "Let the device's allocator keep memory: reserve it once, and make tensors through the "
     "device."},
    {Cause::pageable_copy,
     "Copy from and to pinned memory (cudaMallocHost(), cudaHostRegister()) with cudaMemcpyAsync() "
     "on a stream of its own.",
     "Use DataLoader(pin_memory=True) or tensor.pin_memory(), and .to(device, non_blocking=True).",
     "Upload from pinned tensors; data::Loader does so."},
    {Cause::host_synchronization,
     "Issue the next work before you wait: remove the synchronisation, wait for an event of an "
     "earlier step, or let streams wait for events (cudaStreamWaitEvent()).",
     "Avoid .item(), .cpu(), print(tensor), nonzero() and torch.cuda.synchronize() in the loop; "
     "read losses every few steps, or copy them with non_blocking=True and read them a step later.",
     "Read results a step later: issue the next step first, and then call to_host()."},
    {Cause::legacy_stream,
     "Make the streams with cudaStreamNonBlocking, or compile with --default-stream=per-thread, or "
     "move the work off stream 0.",
     "Run all work on streams of torch.cuda.Stream(); extensions must launch on "
     "at::cuda::getCurrentCUDAStream(), not on stream 0.",
     "Issue the work through a stream group; nothing of it should go to stream 0."},
    {Cause::queue_is_full,
     "Issue fewer and larger pieces of work: fuse kernels, or launch a CUDA graph. Issue the work "
     "of other streams earlier, or from another thread.",
     "Use torch.compile(mode=\"reduce-overhead\") or CUDA graphs, so that fewer launches queue."},
    {Cause::launch_bound,
     "Launch less often: capture the repeated part into a CUDA graph, fuse small kernels, or make "
     "batches larger.",
     "Use torch.compile(mode=\"reduce-overhead\") or torch.cuda.CUDAGraph for the step, fused "
     "optimizers (fused=True, foreach=True), or larger batches.",
     "Capture the step (CapturedStep) if it runs eagerly; if it is captured, make batches larger."},
    {Cause::host_busy,
     "Move the host's other work to another thread, or do it while the device works: issue the "
     "next step first. Build and update graphs, and create events and streams, once and not in "
     "every "
     "step.",
     "Prepare input in DataLoader workers (num_workers, prefetch_factor) and prefetch it; look for "
     "Python work between the launches.",
     "Prepare batches in data::Loader's threads, a step ahead."},
    {Cause::peer_skew,
     "Balance the ranks: the others wait for the slowest. Look at the report of the rank that "
     "came last.",
     "Balance the ranks' batches and tables, and look for what the rank that came last has more "
     "of: input, synchronisations, or kernels."},
    {Cause::collective_order,
     "Issue the collective that is needed first first, make large ones smaller, or give the "
     "urgent ones a communicator of their own.",
     "Issue the urgent collective first, use smaller buckets (bucket_cap_mb), or another process "
     "group for it."},
    {Cause::collective_holds_sms,
     "Give the collective fewer blocks (NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS) or issue the kernel "
     "before it.",
     "Set NCCL_MAX_CTAS or NCCL_MAX_NCHANNELS, or use pg_options with fewer channels, so that "
     "kernels find multiprocessors beside the collective."},
    {Cause::copy_engine,
     "Issue the urgent copy first, divide the large one, or move it to a time when nothing waits. "
     "Priorities of streams do not reach copy engines.",
     "Copy the urgent batch first and prefetch large ones in pieces; a stream's priority does not "
     "help a copy."},
    {Cause::hardware_queue,
     "Set CUDA_DEVICE_MAX_CONNECTIONS to the number of streams (at most 32), or use fewer streams.",
     "Set CUDA_DEVICE_MAX_CONNECTIONS=32 unless a library needs 1, or use fewer streams."},
    {Cause::priority_cannot_help,
     "Running blocks are not taken off: divide the kernel of low priority into shorter ones, or "
     "leave some multiprocessors free of it."},
    {Cause::multiprocessors_full,
     "Leave room: a smaller grid that loops, fewer registers or less shared memory for the kernel "
     "in the way. Small kernels on a stream of a higher priority begin when blocks of it end. If "
     "both kernels fill the device, running them at once gains nothing: fuse or "
     "order them instead.",
     "Kernels of this size fill the device, and more streams gain nothing; use smaller grids in "
     "own kernels, or batch the small operations.",
     "Issue the small operations first, or let the assignment of groups keep them off the large "
     "one's way."},
    {Cause::false_dependency,
     "Record the event right after the work that is needed, and wait for that event; use two "
     "buffers where only the reuse of one makes the wait necessary.",
     "Record an event after the producer and use stream.wait_event(event) in place of "
     "wait_stream(); use two buffers where only their reuse needs the wait.",
     "Remove a Stream::wait() that covers more than is needed, declare only what an operation "
     "reads "
     "and writes, and issue an operation that waits before its producer's stream gets more: the "
     "event that an eager wait records covers all until then. A captured step has no such events."},
    {Cause::one_stream_two_roles,
     "Issue the two kinds of work to streams of their own, and check that a pool does not hand out "
     "one stream twice.",
     "Put copies or the second role on a torch.cuda.Stream() of their own. The pool has 32 streams "
     "and hands them out again after that.",
     "Use stream groups of their own for the two."},
    {Cause::short_kernels,
     "Fuse short kernels or make batches larger; capture them into a CUDA graph, which takes less "
     "time from one to the next; or use programmatic dependent launches, which begin a kernel "
     "before the one ahead has ended. Faster launches do not help: the host is ahead.",
     "Use torch.compile(), fused optimizers (fused=True, foreach=True) or larger batches, so that "
     "kernels are longer; CUDA graphs take less time from one to the next.",
     "Capture the step (CapturedStep), or make batches larger."},
    {Cause::true_dependency,
     "No wait is known to be superfluous: check those of the evidence. If all are needed, shorten "
     "the chain: faster kernels on the critical path, or independent work (another batch) beside "
     "it."},
    {Cause::bandwidth_shared,
     "Both need the same bandwidth or multiprocessors: overlap work that computes with work that "
     "moves data, or run them one after the other.",
     "Overlap compute-bound work with transfers, not two memory-bound kernels."},
    {Cause::unknown, ""},  // what to record, by record_text()
}};

constexpr bool advice_in_order() {
  for (std::size_t i = 0; i < kAdvice.size(); ++i) {
    if (static_cast<std::size_t>(kAdvice[i].cause) != i) {
      return false;
    }
  }
  return true;
}
static_assert(advice_in_order(), "advice() uses a cause as a place");

}  // namespace

Framework framework_of(Recording const& recording) {
  bool operations = false;
  for (auto const& range : recording.ranges) {
    if (recording.names[range.domain] == "msstream") {
      return Framework::msstream;
    }
    operations = operations || range.kind == RangeKind::operation;
  }
  for (NameId name = 0; name < recording.names.size() && !operations; ++name) {
    operations = recording.names[name].find("at::native::") != std::string_view::npos;
  }
  if (recording.has_dependencies) {
    return Framework::msstream;  // only step traces declare them
  }
  return operations ? Framework::pytorch : Framework::cuda;
}

std::string advice(Cause cause, Framework framework) {
  auto const& texts = kAdvice[static_cast<std::size_t>(cause)];
  auto const own = framework == Framework::pytorch    ? texts.pytorch
                   : framework == Framework::msstream ? texts.msstream
                                                      : texts.cuda;
  return std::string(own.empty() ? texts.cuda : own);
}

std::string other_device_advice() {
  return "If the waits are needed, give each device work of its own meanwhile: divide a batch into "
         "several that follow each other through the devices, as pipelines do, or let each device "
         "work on a batch of its own.";
}

std::string full_advice() {
  return "Nothing is gained by more streams: each of these kernels has work for the whole device. "
         "Make the kernels faster, or do less; streams help beside kernels that leave "
         "multiprocessors free.";
}

std::string pool_advice() {
  return " A pool of cudaMallocAsync() gives its memory back to the driver at every "
         "synchronisation, "
         "and takes it again: raise its threshold (cudaMemPoolSetAttribute() with "
         "cudaMemPoolAttrReleaseThreshold).";
}

std::string graph_launch_advice(Framework framework) {
  std::string const text =
      "Most of these launches are those of graphs already: let each do more, with larger batches "
      "or ";
  switch (framework) {
    case Framework::pytorch:
      return text + "more of the step in one graph (fewer graph breaks).";
    case Framework::msstream:
      return text + "several steps in one CapturedStep.";
    case Framework::cuda:
      break;
  }
  return text +
         "several steps in one graph, and upload a graph before its first launch "
         "(cudaGraphUpload()).";
}

std::string idle_advice() {
  return " If the program waits for requests or input meanwhile, nothing is slow: the device has "
         "too "
         "little to do, and more load fills it.";
}

std::string record_text(Missing missing, Recording const& recording) {
  auto const& source = recording.source;
  if (source == kHostSource) {
    return "Streams of the host runtime are threads: the work may have waited for a processor.";
  }
  bool const nsight = source.find("Nsight") != std::string::npos;
  bool const ours = source == kRecorderSource;
  switch (missing) {
    case Missing::nothing:
      return std::string(
                 "Nothing that was recorded explains it: work of another process on the "
                 "device, or calls that no tool records.") +
             (ours ? ""
                   : " `msstream-overlap run` also records hardware queues, events and waits.");
    case Missing::calls:
      return ours
                 ? "The calls that issued the work are not in the recording: they were made before "
                   "it began, or by a library in a way that no tool records. Record from an "
                   "earlier moment on."
                 : "Record the calls of the CUDA runtime as well: `msstream-overlap run`, or `nsys "
                   "profile --trace=cuda`.";
    case Missing::waits:
      return ours ? "The recording has no waits of streams: they were made before it began, or are "
                    "inside a graph. Record from an earlier moment on, or with "
                    "--graph-nodes."
             : recording.lacks_event_numbers ? "Record with a later version of Nsight Systems, "
                                               "whose exports tell which event a "
                                               "stream waits for, or with `msstream-overlap run`."
             : nsight ? "Record events and waits: `nsys profile --cuda-event-trace=true`, or "
                        "`msstream-overlap run`."
                      : "Record waits of streams: torch.profiler with "
                        "_ExperimentalConfig(enable_cuda_sync_events=True), or `msstream-overlap "
                        "run`.";
    case Missing::channels:
      return "Record the hardware queue of each kernel: `msstream-overlap run`, which has the "
             "channel that Nsight Systems and older PyTorch leave out.";
    case Missing::graph_edges:
      return "A CUDA graph ran here. If the recording has it as a whole, record its nodes: "
             "`msstream-overlap run --graph-nodes`, or `nsys profile --cuda-graph-trace=node`. If "
             "it has its nodes, it lacks some of them, or what they wait for.";
    case Missing::host_functions:
      return "A function of the host was in the stream (cudaLaunchHostFunc()), and no tool records "
             "when it ran: put an NVTX range into it.";
    case Missing::values:
      return "A stream waited until memory had a value (cuStreamWaitValue32()), and no tool "
             "records who wrote it: put an NVTX range around the write, or wait for an event.";
    case Missing::stream_types:
      return "Record the types of the streams: `msstream-overlap run`. The legacy default stream "
             "and "
             "blocking streams wait for each other, and the recording does not tell which streams "
             "these are.";
    case Missing::turns:
      return "The streams belong to different contexts, to which a device gives turns: use one "
             "context, or MPS for several processes.";
  }
  return {};
}

}  // namespace msstream::overlap
