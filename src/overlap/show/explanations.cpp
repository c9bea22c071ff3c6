// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/choices.hpp"
#include "overlap/show/text.hpp"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::overlap {
namespace {

/// The short form of a cause's section in docs/overlap.md.
struct Explanation {
  Cause cause;
  std::string_view looks;
  std::string_view why;
  std::string_view helps;
};

constexpr std::array<Explanation, kCauses> kExplanations{{
    {Cause::recording_overhead,
     "The device is idle while the tool that recorded works: it flushes buffers or sets itself up.",
     "Recording costs time on the host, most of it in the first steps and where buffers fill up.",
     "Skip the first steps (--skip), record less, and compare with a run without the tool."},
    {Cause::lazy_loading,
     "The device is idle while a module or a kernel is loaded or compiled, mostly at first use.",
     "CUDA loads kernels at their first launch (CUDA_MODULE_LOADING=LAZY), and compiles PTX.",
     "Run each kernel once before the part that counts, set CUDA_MODULE_LOADING=EAGER, and build "
     "for the GPU's architecture. Skip warm-up steps when recording."},
    {Cause::driver_allocation,
     "cudaMalloc(), cudaFree() or cudaHostAlloc() run on the host while the device is idle or one "
     "stream waits to get work.",
     "These calls take up to milliseconds, and cudaFree() waits for the device.",
     "Allocate before the loop, or from a pool: cudaMallocAsync(), PyTorch's caching allocator "
     "(without empty_cache()), msstream's Device."},
    {Cause::pageable_copy,
     "A copy between the device and memory that is not pinned; its call lasts as long as the copy.",
     "The driver copies pageable memory by way of a pinned buffer, and blocks the host meanwhile.",
     "Use pinned memory (cudaHostAlloc(), pin_memory=True) and an asynchronous copy "
     "(cudaMemcpyAsync(), non_blocking=True) on a stream of its own."},
    {Cause::host_synchronization,
     "The host waits for the device, and issues the next work only afterwards: the device is idle "
     "for as long as that takes.",
     "A call waits on purpose (cudaDeviceSynchronize()) or to read a value (.item(), .cpu(), "
     "print of a tensor).",
     "Read results later or less often, wait for an event instead of the device, and issue the "
     "next step before waiting for the last."},
    {Cause::legacy_stream,
     "Work of several streams runs in turn around work of the legacy default stream.",
     "The legacy default stream waits for all blocking streams, and they wait for it.",
     "Create streams with cudaStreamNonBlocking, issue nothing to stream 0, or compile with "
     "--default-stream per-thread."},
    {Cause::queue_is_full,
     "A launch takes long, since the host waits for room in the launch queue; another stream gets "
     "no work meanwhile.",
     "A stream takes about a thousand launches ahead of the device; then launches block the "
     "thread.",
     "Issue the streams in turn in smaller parts, from a thread each, or as a graph."},
    {Cause::launch_bound,
     "Short kernels with gaps between them, while the host launches without a pause.",
     "A launch costs the host some microseconds; kernels that take less leave the device idle.",
     "Fuse kernels, enlarge batches, or replay a CUDA graph (torch.cuda.graph, torch.compile, "
     "msstream's CapturedSteps)."},
    {Cause::host_busy,
     "The device is idle while the host makes no CUDA calls.",
     "The host does something else: reads input, runs an interpreter, waits for a lock.",
     "Prepare input in other threads, ahead of its use; move the work out of the loop; profile the "
     "host at these times."},
    {Cause::peer_skew,
     "A collective runs long on one rank and short on another one that came last.",
     "A collective waits until all ranks have begun it.",
     "Balance the work of the ranks, and look at the last rank's report for what held it up."},
    {Cause::collective_order,
     "A collective waits for another one of its communicator, though it could begin.",
     "Collectives of one communicator run in the order of their issue, on one stream.",
     "Issue the urgent collective first, or use a second communicator; merge small ones."},
    {Cause::collective_holds_sms,
     "Kernels wait or run slowly while a collective's kernel holds multiprocessors.",
     "A collective's blocks stay on their multiprocessors until it is complete, also while it "
     "waits.",
     "Give collectives fewer blocks (NCCL_MAX_CTAS, NCCL_MIN_CTAS), a high priority, or issue the "
     "computation first."},
    {Cause::copy_engine,
     "A copy waits until another one in the same direction is complete, though its stream is free.",
     "There is one queue for each direction of copying; priorities do not reach it.",
     "Divide large copies, issue urgent ones first, or copy small data by a kernel from pinned "
     "memory."},
    {Cause::hardware_queue,
     "Work of two streams runs in turn, though nothing orders them and there is room.",
     "Streams share hardware queues (8 by default, at most 32), in which work keeps its order.",
     "Set CUDA_DEVICE_MAX_CONNECTIONS to the number of streams, at most 32, or use fewer streams."},
    {Cause::priority_cannot_help,
     "Work of a high priority waits until blocks of a low priority are complete.",
     "Priorities choose which blocks start next. They do not stop running blocks, and do not reach "
     "copies.",
     "Make the blocks of the low priority shorter, or leave multiprocessors free for the urgent "
     "work (green contexts, smaller grids)."},
    {Cause::multiprocessors_full,
     "A kernel waits until another one is (nearly) complete, though nothing orders them.",
     "The running kernel's blocks, threads, registers or shared memory fill all multiprocessors.",
     "Give the large kernel a smaller grid or fewer resources, or accept it: the device is in use. "
     "Overlap helps where kernels leave room."},
    {Cause::false_dependency,
     "A stream waits for an event that covers more than the data that it needs.",
     "The event was recorded late, after other work, or the wait is not needed at all.",
     "Record the event right after the work that is needed, and drop waits that another one "
     "covers."},
    {Cause::one_stream_two_roles,
     "Independent work, such as copies and kernels, is in one stream and runs in its order.",
     "A stream runs its work in order; a pool of streams may hand out one stream twice.",
     "Use a stream for each role, and check that a pool gives different ones."},
    {Cause::short_kernels,
     "The device idles for one or two us between kernels of a stream that were launched early.",
     "The device needs that time from the end of one kernel to the begin of the next. The host is "
     "far ahead, so that faster launches do not help.",
     "Fuse short kernels, launch them as a CUDA graph, overlap their ends and begins by "
     "programmatic dependent launches, or run independent ones in several streams."},
    {Cause::true_dependency,
     "The work needs what ran before it: nothing else could run.",
     "This is the program's critical path.",
     "Shorten the path itself: faster kernels, fewer steps, or work of another batch beside it."},
    {Cause::bandwidth_shared,
     "Two activities overlap, and each takes longer than alone, so that little is gained.",
     "Both need the same memory, link or cache, which is full.",
     "Overlap work that needs different resources: computation beside copies or collectives."},
    {Cause::unknown,
     "Time was lost, and the recording does not tell why.",
     "The notes of the report say what it lacks, such as calls, waits or hardware queues.",
     "Record again with what the notes name, or with msstream-overlap run."},
}};

constexpr bool explanations_in_order() {
  for (std::size_t i = 0; i < kExplanations.size(); ++i) {
    if (static_cast<std::size_t>(kExplanations[i].cause) != i) {
      return false;
    }
  }
  return true;
}
static_assert(explanations_in_order(), "explanation_of() uses a cause as a place");

}  // namespace

std::string explanation_of(Cause cause, std::size_t width, std::string_view page) {
  auto const& text = text_of(cause);
  auto const& explanation = kExplanations[static_cast<std::size_t>(cause)];
  std::string out = fmt::format("{} [{}]\n", text.title, text.id);
  for (auto const& [lead, sentence] : {std::pair("  looks like  ", explanation.looks),
                                       std::pair("  because     ", explanation.why),
                                       std::pair("  what helps  ", explanation.helps)}) {
    std::string_view const first = lead;
    bool is_first = true;
    for (auto const& line : wrapped(sentence, width > first.size() ? width - first.size() : 0)) {
      out += (is_first ? std::string(first) : std::string(first.size(), ' ')) + line + "\n";
      is_first = false;
    }
  }
  return out + fmt::format("  more: {}#{}\n", page, text.id);
}

}  // namespace msstream::overlap
