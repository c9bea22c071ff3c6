// SPDX-License-Identifier: Apache-2.0
// Public reports in which the host did not issue work in time.
#include "overlap/cases/case.hpp"

#include <string>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Kernel host_kernel(Ns duration, int blocks = 32) {
  return {.name = "elementwise", .duration = duration, .blocks = blocks};
}

/// pytorch/pytorch 48279: kernels of two streams are so short that each is over before the next one
/// is launched. Fixed: longer kernels.
std::vector<Recording> short_kernels(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 40; ++i) {
    for (auto const stream : {a, b}) {
      program.thread().launch(stream, host_kernel(fixed ? 60 * us : 3 * us), 6 * us);
    }
  }
  return one(program.run());
}

/// An eager loop on one stream, like the recordings of bert and detection models: the interpreter
/// and the call take 9 us for each kernel of 4 us. Fixed: the step is one CUDA graph.
std::vector<Recording> eager_loop(bool fixed) {
  TraceBuilder program;
  auto const stream = program.stream();
  for (int step = 0; step < 4; ++step) {
    if (fixed) {
      std::vector<Node> nodes;
      for (std::size_t i = 0; i < 40; ++i) {
        nodes.push_back({host_kernel(4 * us),
                         i == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{i - 1}});
      }
      program.thread().launch_graph(stream, nodes);
    } else {
      for (int i = 0; i < 40; ++i) {
        program.thread().busy(4 * us).launch(stream, host_kernel(4 * us), 5 * us);
      }
    }
  }
  return one(program.run());
}

/// pytorch/pytorch 19103: one thread issues to several streams in turn, and between the calls works
/// in the interpreter for longer than the work takes. Fixed: a thread for each stream, prepared.
std::vector<Recording> busy_interpreter(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 12; ++i) {
    if (!fixed) {
      program.thread().busy(400 * us);
    }
    program.thread().launch(a, host_kernel(150 * us));
    if (!fixed) {
      program.thread().busy(400 * us);
    }
    program.thread().launch(b, host_kernel(150 * us));
  }
  return one(program.run());
}

/// An input pipeline that decodes on the thread that launches: the device idles between steps.
/// Fixed: input was prepared by another thread.
std::vector<Recording> slow_input(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  for (int step = 0; step < 8; ++step) {
    auto const uploaded = program.event();
    program.thread().begin_range("ProfilerStep#" + std::to_string(step));
    if (!fixed) {
      program.thread().begin_range("decode", RangeKind::nvtx).busy(1500 * us).end_range();
    }
    program.thread()
        .copy(copies, CopyDirection::h2d, 2'000'000)
        .record(uploaded, copies)
        .wait(compute, uploaded);
    for (int i = 0; i < 4; ++i) {
      program.thread().launch(compute, host_kernel(200 * us, 264));
    }
    program.thread().end_range();
  }
  return one(program.run());
}

/// facebookresearch/fairscale 623: the host waits for a stream in every layer, so that the next
/// gather is not issued before the layer's work is complete. Fixed: the stream waits, not the host.
std::vector<Recording> synchronised_layers(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const gather = program.stream();
  for (int layer = 0; layer < 10; ++layer) {
    auto const gathered = program.event();
    Kernel gathering{.name = "AllGather", .duration = 120 * us, .blocks = 16, .threads = 512};
    program.thread().launch(gather, gathering).record(gathered, gather);
    if (fixed) {
      program.thread().wait(compute, gathered);
    } else {
      program.thread().sync_event(gathered);
    }
    program.thread().launch(compute, host_kernel(150 * us, 100));
    if (!fixed) {
      program.thread().sync_stream(compute).busy(30 * us);
    }
  }
  return one(program.run());
}

/// Koratahiu/Advanced_Optimizers 5: the host reads a result of every
/// step, and waits for the device before it issues the next one. Fixed: it does not read.
std::vector<Recording> synchronised_steps(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int step = 0; step < 10; ++step) {
    for (int i = 0; i < 3; ++i) {
      program.thread().launch(a, host_kernel(40 * us)).launch(b, host_kernel(40 * us));
    }
    if (!fixed) {
      program.thread().sync_device().busy(60 * us);
    }
  }
  return one(program.run());
}

/// pytorch/pytorch 39694: a download to memory that nobody pinned returns when it is complete, so
/// that the other stream's work is issued after it. Fixed: a pinned target.
std::vector<Recording> pageable_download(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  for (int step = 0; step < 8; ++step) {
    auto const ready = program.event();
    program.thread()
        .launch(compute, host_kernel(200 * us, 100))
        .record(ready, compute)
        .wait(copies, ready)
        .copy(copies,
              CopyDirection::d2h,
              4'000'000,
              fixed ? MemoryKind::pinned : MemoryKind::pageable);
  }
  return one(program.run());
}

/// NVIDIA/TensorRT 2353: three streams, each with an upload from and a download to ordinary memory
/// around a kernel. Fixed: pinned.
std::vector<Recording> pageable_streams(bool fixed) {
  auto const memory = fixed ? MemoryKind::pinned : MemoryKind::pageable;
  TraceBuilder program;
  std::vector<StreamNumber> streams{program.stream(), program.stream(), program.stream()};
  for (int step = 0; step < 4; ++step) {
    for (auto const stream : streams) {
      program.thread()
          .copy(stream, CopyDirection::h2d, 1'600'000, memory)
          .launch(stream, host_kernel(300 * us, 40))
          .copy(stream, CopyDirection::d2h, 800'000, memory);
    }
  }
  return one(program.run());
}

/// NVIDIA/Fuser 5767: streams that are made anew find no cached memory, so that each step calls
/// cudaMalloc. Fixed: the streams are used again.
std::vector<Recording> repeated_allocations(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int step = 0; step < 10; ++step) {
    for (auto const stream : {a, b}) {
      if (!fixed) {
        program.thread().allocate(350 * us);
      }
      program.thread().launch(stream, host_kernel(180 * us));
    }
  }
  return one(program.run());
}

/// deepseek-ai/FlashMLA 87: a backward pass that allocates and frees its workspace, and so waits
/// for the device each time. Fixed: a workspace from a pool.
std::vector<Recording> freed_workspace(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int step = 0; step < 10; ++step) {
    for (auto const stream : {a, b}) {
      if (!fixed) {
        program.thread().allocate(80 * us);
      }
      program.thread().launch(stream, host_kernel(120 * us));
      if (!fixed) {
        program.thread().release(100 * us);
      }
    }
  }
  return one(program.run());
}

/// meta-pytorch/torchcomms 2334: the first launch of a kernel loads its module under the context's
/// lock and waits for the device; the other thread's launches stand behind it. Fixed: warmed up.
std::vector<Recording> first_launches(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 4; ++i) {
    Kernel fresh = host_kernel(100 * us);
    fresh.name = "kernel_" + std::to_string(i);
    program.thread().launch(a, host_kernel(300 * us));
    if (fixed) {
      program.thread().launch(a, fresh);
    } else {
      program.thread().launch_first(a, fresh, 800 * us, true);
    }
  }
  for (int i = 0; i < 8; ++i) {
    program.second_thread().launch(b, host_kernel(120 * us)).busy(20 * us);
  }
  return one(program.run());
}

/// NVIDIA/nvbench 136: kernels are loaded one by one at their first launch. Fixed: eager loading.
std::vector<Recording> lazy_kernels(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 10; ++i) {
    for (auto const stream : {a, b}) {
      Kernel fresh = host_kernel(60 * us);
      fresh.name = "variant_" + std::to_string(2 * i) + (stream == a ? "a" : "b");
      if (fixed) {
        program.thread().launch(stream, fresh);
      } else {
        program.thread().launch_first(stream, fresh, 250 * us, false);
      }
    }
  }
  return one(program.run());
}

/// A thread fills the launch queue with short work of one stream, and cannot issue the long work of
/// the other. Fixed: the long work is issued first.
std::vector<Recording> full_queue(bool fixed) {
  Gpu gpu;
  gpu.queue_depth = 64;
  TraceBuilder program(gpu);
  auto const a = program.stream();
  auto const b = program.stream();
  auto const issue_long = [&] {
    for (int i = 0; i < 10; ++i) {
      program.thread().launch(b, host_kernel(250 * us));
    }
  };
  if (fixed) {
    issue_long();
  }
  for (int i = 0; i < 160; ++i) {
    program.thread().launch(a, host_kernel(25 * us));
  }
  if (!fixed) {
    issue_long();
  }
  return one(program.run());
}

/// The recording tool writes its buffers out while the program waits. Fixed: larger buffers.
std::vector<Recording> recording_pauses(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int step = 0; step < 8; ++step) {
    for (int i = 0; i < 5; ++i) {
      program.thread().launch(a, host_kernel(40 * us)).launch(b, host_kernel(40 * us));
    }
    if (!fixed) {
      program.thread().recorder(600 * us);
    }
  }
  return one(program.run());
}

}  // namespace

std::vector<Case> host_cases() {
  return {
      {"short_kernels", "pytorch/pytorch 48279", Cause::launch_bound, {}, short_kernels},
      {"eager_loop", "", Cause::launch_bound, {}, eager_loop},
      {"busy_interpreter", "pytorch/pytorch 19103", Cause::host_busy, {}, busy_interpreter},
      {"slow_input", "", Cause::host_busy, {}, slow_input},
      {"synchronised_layers",
       "facebookresearch/fairscale 623",
       Cause::host_synchronization,
       {},
       synchronised_layers},
      {"synchronised_steps",
       "Koratahiu/Advanced_Optimizers 5",
       Cause::host_synchronization,
       {},
       synchronised_steps},
      {"pageable_download", "pytorch/pytorch 39694", Cause::pageable_copy, {}, pageable_download},
      {"pageable_streams", "NVIDIA/TensorRT 2353", Cause::pageable_copy, {}, pageable_streams},
      {"repeated_allocations",
       "NVIDIA/Fuser 5767",
       Cause::driver_allocation,
       {},
       repeated_allocations},
      {"freed_workspace", "deepseek-ai/FlashMLA 87", Cause::driver_allocation, {}, freed_workspace},
      {"first_launches", "meta-pytorch/torchcomms 2334", Cause::lazy_loading, {}, first_launches},
      {"lazy_kernels", "NVIDIA/nvbench 136", Cause::lazy_loading, {}, lazy_kernels},
      {"full_queue", "", Cause::queue_is_full, {}, full_queue},
      {"recording_pauses", "", Cause::recording_overhead, {}, recording_pauses},
  };
}

}  // namespace msstream::overlap::cases
