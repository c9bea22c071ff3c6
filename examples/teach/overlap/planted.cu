// SPDX-License-Identifier: Apache-2.0
// More planted causes, each a mode of this program: planted MODE [--fixed]. Without a mode, lists
// them. Each mode says in a comment what is wrong, and what --fixed changes.
#include "planted.cuh"

#include <utility>

namespace {

using planted::busy;
using planted::new_event;
using planted::new_stream;
using planted::Options;
using planted::work;

void measure(Options const& options, int steps, auto&& step) {
  planted::measure(options, "planted", steps, step);
}

/// One hardware queue for all streams: the kernels of a stream stand behind those of another one.
/// Fixed: CUDA_DEVICE_MAX_CONNECTIONS=32. CUDA reads the variable when it is initialised.
void hardware_queue(Options const& options) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", options.fixed ? "32" : "1", 1);
  cudaStream_t const streams[] = {new_stream(), new_stream(), new_stream(), new_stream()};
  measure(options, 10, [&] {
    for (auto const stream : streams) {
      for (int i = 0; i < 6; ++i) {
        work(stream, 100);
      }
    }
  });
}

template <int number>
__global__ void variant(float* out) {
  float value = static_cast<float>(number + threadIdx.x);
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    value = value * (1.0F + static_cast<float>(number)) + static_cast<float>(i);
  }
  if (value == -1.0F) {
    *out = value;
  }
}

template <int... numbers>
std::vector<void (*)(float*)> variants(std::integer_sequence<int, numbers...>) {
  return {variant<numbers>...};
}

/// Kernels are loaded at their first launch. Fixed: CUDA_MODULE_LOADING=EAGER. Measured once, since
/// each kernel has one first launch.
void lazy_loading(Options const& options) {
  setenv("CUDA_MODULE_LOADING", options.fixed ? "EAGER" : "LAZY", 1);
  auto const a = new_stream();
  auto const b = new_stream();
  auto* const out = static_cast<float*>(planted::device_memory(64));
  work(a, 10);
  PLANTED_CHECK(cudaDeviceSynchronize());
  auto const kernels = variants(std::make_integer_sequence<int, 200>());
  nvtxRangePushA("measured");
  auto const begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    kernels[i]<<<4, 64, 0, i % 2 == 0 ? a : b>>>(out);
    work(i % 2 == 0 ? a : b, 10);
  }
  PLANTED_CHECK(cudaDeviceSynchronize());
  std::chrono::duration<double, std::micro> const time = std::chrono::steady_clock::now() - begin;
  nvtxRangePop();
  planted::print(options, "planted", time.count());
}

/// The launch queue is full of one stream's work, so that the host cannot issue the other's until
/// all but the last thousand launches have begun. The other's kernel takes as long as all of them.
/// Fixed: the long kernel is issued first.
void queue_is_full(Options const& options) {
  auto const a = new_stream();
  auto const b = new_stream();
  measure(options, 2, [&] {
    if (options.fixed) {
      work(b, 60000);
    }
    for (int i = 0; i < 3000; ++i) {
      work(a, 20);
    }
    if (!options.fixed) {
      work(b, 60000);
    }
    PLANTED_CHECK(cudaDeviceSynchronize());
  });
}

/// Priorities do not interrupt blocks that run: the urgent stream's work waits for a long kernel
/// that fills the device. Fixed: the long kernel is many short ones.
void priority_cannot_help(Options const& options) {
  auto const low = new_stream(0);
  auto const high = new_stream(-5);
  int const fitting = planted::sms() * 2;
  auto const joined = new_event();
  measure(options, 10, [&] {
    int const pieces = options.fixed ? 20 : 1;
    for (int i = 0; i < pieces; ++i) {
      work(low, 2000 / pieces, fitting - (i > 0 ? 16 : 0), 1024);
    }
    busy(20);
    work(high, 1500, 16, 1024);
    PLANTED_CHECK(cudaEventRecord(joined, high));
    PLANTED_CHECK(cudaStreamWaitEvent(low, joined));
  });
}

__global__ void add_one(float4* data, std::size_t count, int times) {
  std::size_t const stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (int t = 0; t < times; ++t) {
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
         i += stride) {
      float4 value = data[i];
      value.x += 1;
      value.y += 1;
      data[i] = value;
    }
  }
}

/// Two kernels run at once, and each takes twice as long, since both need the memory's bandwidth.
/// Fixed: the second one's data fit into the cache.
void bandwidth_shared(Options const& options) {
  auto const a = new_stream();
  auto const b = new_stream();
  std::size_t const large = 1U << 30;
  std::size_t const small = 8U << 20;
  auto* const first = static_cast<float4*>(planted::device_memory(large));
  auto* const second = static_cast<float4*>(planted::device_memory(large));
  int const blocks = planted::sms();
  auto const join = new_event();
  measure(options, 8, [&] {
    add_one<<<blocks, 1024, 0, a>>>(first, large / sizeof(float4), 1);  // alone, then beside
    add_one<<<blocks, 1024, 0, a>>>(first, large / sizeof(float4), 1);
    PLANTED_CHECK(cudaEventRecord(join, a));
    PLANTED_CHECK(cudaStreamWaitEvent(b, join));
    for (int i = 0; i < 3; ++i) {
      add_one<<<blocks, 1024, 0, a>>>(first, large / sizeof(float4), 1);
      add_one<<<blocks, 1024, 0, b>>>(
          second, (options.fixed ? small : large) / sizeof(float4), options.fixed ? 60 : 1);
    }
    PLANTED_CHECK(cudaEventRecord(join, b));
    PLANTED_CHECK(cudaStreamWaitEvent(a, join));
  });
}

/// One block of each kernel takes a multiprocessor's shared memory. Fixed: half of the blocks.
void shared_memory_full(Options const& options) {
  int const bytes = 200 << 10;
  PLANTED_CHECK(
      cudaFuncSetAttribute(planted::spin, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaStream_t const streams[] = {new_stream(), new_stream()};
  int const blocks = options.fixed ? planted::sms() / 2 : planted::sms();
  measure(options, 40, [&] {
    for (auto const stream : streams) {
      work(stream, 200, blocks, 128, bytes);
    }
  });
}

/// A fill in the legacy default stream orders all blocking streams. Fixed: cudaMemsetAsync() in the
/// stream that needs it.
void legacy_fill(Options const& options) {
  cudaStream_t streams[3] = {};
  for (auto& stream : streams) {
    PLANTED_CHECK(cudaStreamCreate(&stream));
  }
  void* const buffer = planted::device_memory(1 << 20);
  measure(options, 20, [&] {
    for (auto const stream : streams) {
      PLANTED_CHECK(cudaMemsetAsync(buffer, 0, 1 << 20, options.fixed ? stream : nullptr));
      work(stream, 200);
    }
  });
}

/// Two streams wait for each other in each round, though neither uses what the other one writes.
/// Fixed: no waits.
void redundant_wait(Options const& options) {
  auto const a = new_stream();
  auto const b = new_stream();
  auto const left = new_event();
  auto const right = new_event();
  measure(options, 40, [&] {
    work(a, 150);
    PLANTED_CHECK(cudaEventRecord(left, a));
    if (!options.fixed) {
      PLANTED_CHECK(cudaStreamWaitEvent(b, left));
    }
    work(b, 150);
    PLANTED_CHECK(cudaEventRecord(right, b));
    if (!options.fixed) {
      PLANTED_CHECK(cudaStreamWaitEvent(a, right));
    }
  });
}

/// A download to memory of malloc() returns when it is complete. Fixed: pinned memory.
void pageable_download(Options const& options) {
  auto const compute = new_stream();
  auto const copies = new_stream();
  std::size_t const bytes = 16 << 20;
  void* const target = planted::host_memory(bytes, options.fixed);
  void* const source = planted::device_memory(bytes);
  measure(options, 20, [&] {
    work(compute, 400);
    PLANTED_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, copies));
  });
}

/// The host waits for an event before it issues the work that needs it. Fixed: the stream waits.
void event_synchronize(Options const& options) {
  auto const compute = new_stream();
  auto const side = new_stream();
  auto const gathered = new_event();
  measure(options, 40, [&] {
    work(side, 150);
    PLANTED_CHECK(cudaEventRecord(gathered, side));
    if (options.fixed) {
      PLANTED_CHECK(cudaStreamWaitEvent(compute, gathered));
    } else {
      PLANTED_CHECK(cudaEventSynchronize(gathered));
    }
    work(compute, 150);
    if (!options.fixed) {
      PLANTED_CHECK(cudaStreamSynchronize(compute));
    }
  });
}

/// A synchronisation after every step, and then input. Fixed: none.
void device_synchronize(Options const& options) {
  auto const a = new_stream();
  auto const b = new_stream();
  measure(options, 40, [&] {
    busy(150);
    work(a, 200);
    work(b, 200);
    if (!options.fixed) {
      PLANTED_CHECK(cudaDeviceSynchronize());
    }
  });
}

/// Each step pins memory of its own. Fixed: once.
void host_alloc(Options const& options) {
  cudaStream_t const streams[] = {new_stream(), new_stream()};
  void* buffer = nullptr;
  std::size_t const bytes = 4 << 20;
  PLANTED_CHECK(cudaMallocHost(&buffer, bytes));
  void* const target = planted::device_memory(bytes);
  measure(options, 10, [&] {
    for (auto const stream : streams) {
      if (!options.fixed) {
        PLANTED_CHECK(cudaFreeHost(buffer));
        PLANTED_CHECK(cudaMallocHost(&buffer, bytes));
      }
      PLANTED_CHECK(cudaMemcpyAsync(target, buffer, bytes, cudaMemcpyHostToDevice, stream));
      work(stream, 200);
    }
  });
}

/// Uploads and downloads share a stream, though each direction has an engine. Fixed: two streams.
void both_directions(Options const& options) {
  auto const up = new_stream();
  auto const down = options.fixed ? new_stream() : up;
  std::size_t const bytes = 32 << 20;
  void* const host_in = planted::host_memory(bytes, true);
  void* const host_out = planted::host_memory(bytes, true);
  void* const in = planted::device_memory(bytes);
  void* const out = planted::device_memory(bytes);
  measure(options, 20, [&] {
    PLANTED_CHECK(cudaMemcpyAsync(in, host_in, bytes, cudaMemcpyHostToDevice, up));
    PLANTED_CHECK(cudaMemcpyAsync(host_out, out, bytes, cudaMemcpyDeviceToHost, down));
  });
}

/// A small download of one stream, which its kernels follow, stands behind a large one of another.
/// Fixed: the large one waits for the small one, so that it runs beside the kernels.
void download_engine(Options const& options) {
  auto const logs = new_stream();
  auto const main_stream = new_stream(-1);
  std::size_t const bytes = 64 << 20;
  void* const host = planted::host_memory(bytes, true);
  void* const device = planted::device_memory(bytes);
  void* const small_host = planted::host_memory(4096, true);
  void* const small = planted::device_memory(4096);
  auto const done = new_event();
  auto const small_done = new_event();
  measure(options, 10, [&] {
    auto const log = [&] {
      PLANTED_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, logs));
    };
    if (!options.fixed) {
      log();
    }
    PLANTED_CHECK(cudaMemcpyAsync(small_host, small, 4096, cudaMemcpyDeviceToHost, main_stream));
    if (options.fixed) {
      PLANTED_CHECK(cudaEventRecord(small_done, main_stream));
      PLANTED_CHECK(cudaStreamWaitEvent(logs, small_done));
      log();
    }
    work(main_stream, 1000);
    PLANTED_CHECK(cudaEventRecord(done, main_stream));
    PLANTED_CHECK(cudaStreamWaitEvent(logs, done));
    PLANTED_CHECK(cudaEventRecord(done, logs));
    PLANTED_CHECK(cudaStreamWaitEvent(main_stream, done));
  });
}

/// Kernels of two streams are over before the host launches the next one. Fixed: one kernel does
/// the work of fifty.
void launch_two_streams(Options const& options) {
  cudaStream_t const streams[] = {new_stream(), new_stream()};
  measure(options, 20, [&] {
    for (int i = 0; i < (options.fixed ? 1 : 50); ++i) {
      for (auto const stream : streams) {
        work(stream, options.fixed ? 50 : 1, 4);
        busy(3);
      }
    }
  });
}

/// A pair: pageable uploads, and a synchronisation after each step. Fixed: neither.
void pageable_and_synchronize(Options const& options) {
  auto const compute = new_stream();
  auto const copies = new_stream();
  std::size_t const bytes = 16 << 20;
  void* const source = planted::host_memory(bytes, options.fixed);
  void* const target = planted::device_memory(bytes);
  measure(options, 20, [&] {
    PLANTED_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, copies));
    work(compute, 250);
    if (!options.fixed) {
      PLANTED_CHECK(cudaDeviceSynchronize());
    }
  });
}

/// A pair: allocations in each step, and kernels that fill the device. Fixed: neither.
void allocation_and_full(Options const& options) {
  cudaStream_t const streams[] = {new_stream(), new_stream()};
  int const fitting = planted::sms() * 2;
  measure(options, 20, [&] {
    for (auto const stream : streams) {
      work(stream, 200, options.fixed ? fitting / 2 : fitting, 1024);
    }
    if (!options.fixed) {
      void* workspace = nullptr;
      PLANTED_CHECK(cudaMalloc(&workspace, 256 << 20));
      PLANTED_CHECK(cudaFree(workspace));
    }
  });
}

/// A pair: the legacy stream between two streams, and a host that is busy for less. Fixed: neither.
void legacy_and_busy(Options const& options) {
  cudaStream_t side = nullptr;
  PLANTED_CHECK(
      cudaStreamCreateWithFlags(&side, options.fixed ? cudaStreamNonBlocking : cudaStreamDefault));
  measure(options, 10, [&] {
    for (int i = 0; i < 3; ++i) {
      work(side, 200);
      work(nullptr, 200);
    }
    busy(options.fixed ? 0 : 1600);
  });
}

constexpr planted::Mode kModes[] = {
    {"hardware_queue", hardware_queue},
    {"lazy_loading", lazy_loading},
    {"queue_is_full", queue_is_full},
    {"priority_cannot_help", priority_cannot_help},
    {"bandwidth_shared", bandwidth_shared},
    {"shared_memory_full", shared_memory_full},
    {"legacy_fill", legacy_fill},
    {"redundant_wait", redundant_wait},
    {"pageable_download", pageable_download},
    {"event_synchronize", event_synchronize},
    {"device_synchronize", device_synchronize},
    {"host_alloc", host_alloc},
    {"both_directions", both_directions},
    {"download_engine", download_engine},
    {"launch_two_streams", launch_two_streams},
    {"pageable_and_synchronize", pageable_and_synchronize},
    {"allocation_and_full", allocation_and_full},
    {"legacy_and_busy", legacy_and_busy},
};

}  // namespace

int main(int argc, char** argv) {
  return planted::run_mode(argc, argv, kModes);
}
