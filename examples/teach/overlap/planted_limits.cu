// SPDX-License-Identifier: Apache-2.0
// Causes that more streams do not mend: the steps between kernels, chains of work, the recorder,
// and what a recording does not tell. Each is a mode: planted_limits MODE [--fixed]. Without a
// mode, lists them.
#include "planted.cuh"

#include <dlfcn.h>
#include <link.h>

namespace {

using planted::hold_for;
using planted::new_event;
using planted::new_stream;
using planted::Options;
using planted::work;

void measure(Options const& options, int steps, auto&& step) {
  planted::measure(options, "planted_limits", steps, step);
}

cudaGraphExec_t instantiate(cudaStream_t stream, auto&& issue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  PLANTED_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  issue();
  PLANTED_CHECK(cudaStreamEndCapture(stream, &graph));
  PLANTED_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  PLANTED_CHECK(cudaGraphUpload(executable, stream));
  return executable;
}

/// The device needs about 1 us from one kernel to the next, which is much beside kernels of 1.5 us.
/// The host is far ahead: a kernel holds the stream up while it issues them. That kernel has a
/// fixed length, and does not wait for the host: a recorder may hold up calls until work ends. What
/// to judge is the range "judged", which begins after it. Fixed: kernels that do the work of
/// twenty. The time is that on the device, from the first kernel to the last.
void short_kernels(Options const& options) {
  auto const stream = new_stream();
  constexpr int kKernels = 400;  // fewer than the launch queue holds
  constexpr int kFused = 20;
  constexpr int kIssueUs = 10'000;  // 25 us for each launch, also if it is recorded
  auto const issue = [&] {
    for (int i = 0; i < (options.fixed ? kKernels / kFused : kKernels); ++i) {
      work(stream, options.fixed ? kFused * 3 / 2 : 1);  // with its begin and end, 1 us takes 1.5
    }
  };
  issue();
  PLANTED_CHECK(cudaStreamSynchronize(stream));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  PLANTED_CHECK(cudaEventCreate(&begin));
  PLANTED_CHECK(cudaEventCreate(&end));
  constexpr int kRounds = 7;
  std::vector<float> times;
  for (int round = 0; round < kRounds; ++round) {
    bool const recorded = round + 1 == kRounds;
    if (recorded) {
      nvtxRangePushA("measured");
    }
    work(stream, kIssueUs);
    PLANTED_CHECK(cudaEventRecord(begin, stream));
    issue();
    PLANTED_CHECK(cudaEventRecord(end, stream));
    PLANTED_CHECK(cudaEventSynchronize(begin));
    if (recorded) {
      nvtxRangePushA("judged");
    }
    PLANTED_CHECK(cudaStreamSynchronize(stream));
    if (recorded) {
      nvtxRangePop();
      nvtxRangePop();
    }
    float time_ms = 0;
    PLANTED_CHECK(cudaEventElapsedTime(&time_ms, begin, end));
    times.push_back(time_ms);
  }
  std::sort(times.begin(), times.end());
  planted::print(options, "planted_limits", 1000.0 * times[times.size() / 2]);
}

constexpr int kStates = 16 * 256;

/// Half of a step of a filter: the state from what was corrected.
__global__ void predict(float* state, unsigned long long ns) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float const before = state[i];
  hold_for(ns);
  state[i] = 0.5F * before + 1.0F;
}

/// The other half: the state from what was predicted, with that of a neighbour.
__global__ void correct(float* state, unsigned long long ns) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float const before = state[i];
  float const neighbour = state[i ^ 1];
  hold_for(ns);
  state[i] = 0.75F * before + 0.25F * neighbour;
}

/// Two kernels of two streams in turn, each of which reads what the other one wrote: nothing can
/// overlap. Fixed: half of the steps belong to another batch, so that there are two chains, and one
/// batch is predicted while the other one is corrected.
void true_dependency(Options const& options) {
  auto const a = new_stream();
  auto const b = new_stream();
  auto const predicted = new_event();
  cudaEvent_t const corrected[] = {new_event(), new_event()};
  float* states[2] = {};
  for (auto& state : states) {
    state = static_cast<float*>(planted::device_memory(kStates * sizeof(float)));
  }
  measure(options, 5, [&] {
    for (int i = 0; i < 8; ++i) {
      int const batch = options.fixed ? i % 2 : 0;
      PLANTED_CHECK(cudaStreamWaitEvent(a, corrected[batch]));
      predict<<<16, 256, 0, a>>>(states[batch], 200'000);
      PLANTED_CHECK(cudaEventRecord(predicted, a));
      PLANTED_CHECK(cudaStreamWaitEvent(b, predicted));
      correct<<<16, 256, 0, b>>>(states[batch], 200'000);
      PLANTED_CHECK(cudaEventRecord(corrected[batch], b));
      PLANTED_CHECK(cudaGetLastError());
    }
  });
}

using Flush = int (*)(unsigned flag);

/// Returns cuptiActivityFlushAll() of the CUPTI that a recorder has loaded; nullptr without one.
Flush flush_of_recorder() {
  std::string file;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        if (std::strstr(info->dlpi_name, "libcupti.so") != nullptr) {
          *static_cast<std::string*>(found) = info->dlpi_name;
        }
        return 0;
      },
      &file);
  void* const cupti = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  return cupti == nullptr ? nullptr
                          : reinterpret_cast<Flush>(dlsym(cupti, "cuptiActivityFlushAll"));
}

/// The program has its recorder hand over what it has after every launch, as a monitor may that
/// wants it at once. Fixed: the recorder does so by itself, in a thread of its own. Without a
/// recorder, the two are equal: the cause exists in the recording alone. CUPTI may wait for work
/// that runs before it hands over, and calls may wait for CUPTI. That ends, as no kernel waits for
/// a call. The program uses one GPU: with several, a call for one may be held up by another's work.
void recording_overhead(Options const& options) {
  cudaStream_t const streams[] = {new_stream(), new_stream()};
  auto const flush = options.fixed ? nullptr : flush_of_recorder();
  measure(options, 40, [&] {
    for (auto const stream : streams) {
      work(stream, 15);
      if (flush != nullptr) {
        flush(0);  // not 1, which wants unfinished records too
      }
    }
  });
}

/// A function of the host in a stream: the recording does not tell when it ran, and so not why the
/// kernel after it began late. Fixed: the host, which is ahead, does that work itself.
void host_function(Options const& options) {
  auto const stream = new_stream();
  auto const side = new_stream();
  auto const joined = new_event();
  measure(options, 20, [&] {
    work(stream, 150);
    if (options.fixed) {
      planted::busy(200);
    } else {
      PLANTED_CHECK(cudaLaunchHostFunc(
          stream, [](void*) { planted::busy(200); }, nullptr));
    }
    work(stream, 150);
    work(side, 100);
    PLANTED_CHECK(cudaEventRecord(joined, stream));
    PLANTED_CHECK(cudaStreamWaitEvent(side, joined));
  });
}

/// A graph whose kernel fills the device, and a kernel of another stream that waits for room. With
/// the graph recorded as a whole, nothing tells why. The twin is the program itself, recorded with
/// `msstream-overlap run --graph-nodes`: --fixed changes nothing.
void graph_as_a_whole(Options const& options) {
  auto const stream = new_stream();
  auto const side = new_stream();
  auto const begun = new_event();
  auto const joined = new_event();
  int const fitting = planted::sms() * 2;
  auto* const executable = instantiate(stream, [&] { work(stream, 400, fitting, 1024); });
  measure(options, 20, [&] {
    PLANTED_CHECK(cudaEventRecord(begun, stream));
    PLANTED_CHECK(cudaGraphLaunch(executable, stream));
    PLANTED_CHECK(cudaStreamWaitEvent(side, begun));
    work(side, 20, 1, 32);  // the graph takes its place meanwhile
    work(side, 200);
    PLANTED_CHECK(cudaEventRecord(joined, side));
    PLANTED_CHECK(cudaStreamWaitEvent(stream, joined));
  });
}

constexpr planted::Mode kModes[] = {
    {"short_kernels", short_kernels},
    {"true_dependency", true_dependency},
    {"recording_overhead", recording_overhead},
    {"host_function", host_function},
    {"graph_as_a_whole", graph_as_a_whole},
};

}  // namespace

int main(int argc, char** argv) {
  return planted::run_mode(argc, argv, kModes);
}
