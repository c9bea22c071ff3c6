// SPDX-License-Identifier: Apache-2.0
// Public reports in which streams, waits or hardware queues kept independent work in order.
#include "overlap/cases/case.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Kernel ordered_kernel(std::string name, Ns duration, int blocks = 32) {
  return {.name = std::move(name), .duration = duration, .blocks = blocks};
}

/// pytorch/pytorch 25540: products in a stream that the user made, between others in the legacy
/// default stream. Fixed: --default-stream per-thread, and streams that do not block.
std::vector<Recording> legacy_products(bool fixed) {
  TraceBuilder program;
  auto const main = program.stream(fixed ? StreamType::non_blocking : StreamType::legacy);
  auto const side = program.stream(fixed ? StreamType::non_blocking : StreamType::blocking);
  for (int i = 0; i < 12; ++i) {
    program.thread()
        .launch(main, ordered_kernel("mm_io1", 120 * us))
        .launch(side, ordered_kernel("mm_io2", 120 * us));
  }
  return one(program.run());
}

/// opencv/opencv 8938: one call of a library per frame fills a buffer in the default stream, which
/// orders all streams of the user. Fixed: the fill is given the stream.
std::vector<Recording> one_default_fill(bool fixed) {
  TraceBuilder program;
  auto const legacy = program.stream(StreamType::legacy);
  std::vector<StreamNumber> streams{program.stream(StreamType::blocking),
                                    program.stream(StreamType::blocking),
                                    program.stream(StreamType::blocking)};
  for (int i = 0; i < 12; ++i) {
    auto const stream = streams[static_cast<std::size_t>(i) % streams.size()];
    program.thread()
        .fill(fixed ? stream : legacy, 100'000)
        .launch(stream, ordered_kernel("filter", 150 * us))
        .launch(stream, ordered_kernel("resize", 100 * us));
  }
  return one(program.run());
}

/// NVIDIA/Megatron-LM 636: with CUDA_DEVICE_MAX_CONNECTIONS=1, a collective whose input is ready
/// stands behind a product that waits for another one. Fixed: 8 connections.
std::vector<Recording> one_connection(bool fixed) {
  Gpu gpu;
  gpu.channels = fixed ? 8 : 1;
  TraceBuilder program(gpu);
  auto const compute = program.stream();
  auto const reduce = program.stream();
  for (int i = 0; i < 6; ++i) {
    auto const reduced = program.event();
    for (int j = 0; j < 4; ++j) {
      program.thread().launch(compute, ordered_kernel("gemm", 150 * us, 64));
    }
    program.thread()
        .launch(reduce, {.name = "ReduceScatter", .duration = 450 * us, .blocks = 16})
        .record(reduced, reduce)
        .wait(compute, reduced)
        .launch(compute, ordered_kernel("update", 50 * us, 64));
  }
  return one(program.run());
}

/// NVIDIA/cutlass 354: more streams than hardware queues, so that streams whose kernels have 6
/// blocks do not run beside each other. Here all share one. Fixed: CUDA_DEVICE_MAX_CONNECTIONS=32.
std::vector<Recording> streams_in_one_queue(bool fixed) {
  Gpu gpu;
  gpu.channels = fixed ? 32 : 1;
  TraceBuilder program(gpu);
  for (int i = 0; i < 4; ++i) {
    auto const stream = program.stream();
    for (int j = 0; j < 6; ++j) {
      program.thread().launch(stream, ordered_kernel("conv2d", 300 * us, 6));
    }
  }
  return one(program.run());
}

/// Eight streams on two hardware queues, each filled before the next one: two run at once, and the
/// others stand behind them. Fixed: a queue for each.
std::vector<Recording> streams_in_two_queues(bool fixed) {
  Gpu gpu;
  gpu.channels = fixed ? 32 : 2;
  TraceBuilder program(gpu);
  for (int i = 0; i < 8; ++i) {
    auto const stream = program.stream();
    for (int j = 0; j < 6; ++j) {
      program.thread().launch(stream, ordered_kernel("score", 300 * us, 6));
    }
  }
  return one(program.run());
}

/// Adds the independence of pieces: each piece's activities depend on those before of the piece.
void depend_in_pieces(Recording& recording, std::vector<std::string> const& pieces) {
  recording.has_dependencies = true;
  for (auto const& piece : pieces) {
    Index before = kNone;
    for (Index i = 0; i < recording.activities.size(); ++i) {
      if (recording.names[recording.activities[i].name] == piece) {
        if (before != kNone) {
          recording.dependencies.push_back({before, i});
        }
        before = i;
      }
    }
  }
}

/// pytorch/pytorch 173729: the pool of 32 streams handed out one stream for two roles, so uploads
/// stand between kernels. Fixed: a stream that nobody else has.
std::vector<Recording> aliased_streams(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = fixed ? program.stream() : compute;
  for (int i = 0; i < 10; ++i) {
    program.thread()
        .launch(compute, ordered_kernel("forward", 200 * us, 100))
        .copy(copies, CopyDirection::h2d, 8'000'000);
  }
  return one(program.run());
}

/// microsoft/onnxruntime 11047: requests of two threads all run in the session's one stream. The
/// pieces are known to be independent. Fixed: a stream for each request.
std::vector<Recording> one_session_stream(bool fixed) {
  TraceBuilder program;
  auto const first = program.stream();
  auto const second = fixed ? program.stream() : first;
  for (int i = 0; i < 12; ++i) {
    program.thread()
        .launch(first, ordered_kernel("request_a", 120 * us, 40))
        .launch(second, ordered_kernel("request_b", 120 * us, 40));
  }
  auto recording = program.run();
  depend_in_pieces(recording, {"request_a", "request_b"});
  return one(std::move(recording));
}

/// meta-pytorch/torchrec 4396: the stream for the distribution of input is the one for copies, on
/// a backend with few streams: uploads and downloads stand behind each other. Fixed: distinct.
std::vector<Recording> shared_pipeline_stream(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const upload = program.stream();
  auto const download = fixed ? program.stream() : upload;
  for (int i = 0; i < 8; ++i) {
    program.thread()
        .launch(compute, ordered_kernel("dense", 100 * us, 100))
        .copy(upload, CopyDirection::h2d, 20'000'000)
        .copy(download, CopyDirection::d2h, 20'000'000);
  }
  return one(program.run());
}

/// A side stream waits for the tail of the main stream (`wait_stream()`), though it needs only its
/// first kernel. The dependencies are known. Fixed: an event right after that kernel.
std::vector<Recording> wait_for_the_tail(bool fixed) {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  for (int i = 0; i < 8; ++i) {
    auto const produced = program.event();
    auto const joined = program.event();
    program.thread().launch(main, ordered_kernel("produce", 50 * us));
    if (fixed) {
      program.thread().record(produced, main);
    }
    program.thread().launch(main, ordered_kernel("long", 300 * us));
    if (!fixed) {
      program.thread().record(produced, main);
    }
    program.thread()
        .wait(side, produced)
        .launch(side, ordered_kernel("consume", 250 * us))
        .record(joined, side)
        .wait(main, joined);
  }
  auto recording = program.run();
  recording.has_dependencies = true;
  for (std::size_t i = 0; i < 8; ++i) {
    auto const produce = find_activity(recording, "produce", i);
    auto const consume = find_activity(recording, "consume", i);
    recording.dependencies.push_back({produce, find_activity(recording, "long", i)});
    recording.dependencies.push_back({produce, consume});
    if (i + 1 < 8) {
      auto const next = find_activity(recording, "produce", i + 1);
      recording.dependencies.push_back({consume, next});
      recording.dependencies.push_back({find_activity(recording, "long", i), next});
    }
  }
  return one(std::move(recording));
}

/// A wait that nobody needs: two branches wait for each other's event in every round. Fixed: none.
std::vector<Recording> redundant_waits(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 10; ++i) {
    auto const left = program.event();
    auto const right = program.event();
    program.thread().launch(a, ordered_kernel("left", 150 * us)).record(left, a);
    if (!fixed) {
      program.thread().wait(b, left);
    }
    program.thread().launch(b, ordered_kernel("right", 150 * us)).record(right, b);
    if (!fixed) {
      program.thread().wait(a, right);
    }
  }
  auto recording = program.run();
  depend_in_pieces(recording, {"left", "right"});
  return one(std::move(recording));
}

}  // namespace

std::vector<Case> order_cases() {
  return {
      {"legacy_products", "pytorch/pytorch 25540", Cause::legacy_stream, {}, legacy_products},
      {"one_default_fill", "opencv/opencv 8938", Cause::legacy_stream, {}, one_default_fill},
      {"one_connection", "NVIDIA/Megatron-LM 636", Cause::hardware_queue, {}, one_connection},
      {"streams_in_one_queue",
       "NVIDIA/cutlass 354",
       Cause::hardware_queue,
       {},
       streams_in_one_queue},
      {"streams_in_two_queues", "", Cause::hardware_queue, {}, streams_in_two_queues},
      {"aliased_streams",
       "pytorch/pytorch 173729",
       Cause::one_stream_two_roles,
       {},
       aliased_streams},
      {"one_session_stream",
       "microsoft/onnxruntime 11047",
       Cause::one_stream_two_roles,
       {},
       one_session_stream},
      {"shared_pipeline_stream",
       "meta-pytorch/torchrec 4396",
       Cause::one_stream_two_roles,
       {},
       shared_pipeline_stream},
      {"wait_for_the_tail", "", Cause::false_dependency, {}, wait_for_the_tail},
      {"redundant_waits", "", Cause::false_dependency, {}, redundant_waits},
  };
}

}  // namespace msstream::overlap::cases
