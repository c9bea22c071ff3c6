// SPDX-License-Identifier: Apache-2.0
// Public reports in which the device had no room for what was ready.
#include "overlap/cases/case.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {
namespace {

/// pytorch/pytorch 59692: each product has blocks for the whole device, so that the other stream's
/// starts after it. Fixed: products that leave room.
std::vector<Recording> large_products(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 10; ++i) {
    for (auto const stream : {a, b}) {
      program.thread().launch(stream,
                              {.name = "gemm",
                               .duration = 200 * us,
                               .blocks = fixed ? 48 : 132 * 4,
                               .threads = 256,
                               .registers = 64});
    }
  }
  return one(program.run());
}

/// NVIDIA/TensorRT 2309: kernels of two execution contexts use all registers: 1 block a
/// multiprocessor. Fixed: half the blocks.
std::vector<Recording> register_heavy(bool fixed) {
  TraceBuilder program;
  auto const a = program.stream();
  auto const b = program.stream();
  for (int i = 0; i < 8; ++i) {
    for (auto const stream : {a, b}) {
      program.thread().launch(stream,
                              {.name = "conv",
                               .duration = 250 * us,
                               .blocks = fixed ? 66 : 132,
                               .threads = 256,
                               .registers = 255});
    }
  }
  return one(program.run());
}

/// NVIDIA/TensorRT 2493: three streams are parallel only in parts: kernels with much shared memory
/// fill the device, the small ones between do not. Fixed: fewer blocks.
std::vector<Recording> shared_memory_heavy(bool fixed) {
  TraceBuilder program;
  std::vector<StreamNumber> streams{program.stream(), program.stream(), program.stream()};
  for (int i = 0; i < 6; ++i) {
    for (auto const stream : streams) {
      program.thread()
          .launch(stream,
                  {.name = "attention",
                   .duration = 200 * us,
                   .blocks = fixed ? 44 : 132,
                   .threads = 128,
                   .registers = 64,
                   .shared_bytes = 200'000})
          .launch(stream, {.name = "bias", .duration = 20 * us, .blocks = 16});
    }
  }
  return one(program.run());
}

/// NVIDIA/nccl 1431: a product takes all multiprocessors, and the next piece of communication, a
/// few blocks, starts when it ends. Fixed: the product leaves some free.
std::vector<Recording> product_before_send(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  for (int i = 0; i < 8; ++i) {
    auto const computed = program.event();
    auto const sent = program.event();
    program.thread()
        .launch(compute,
                {.name = "gemm",
                 .duration = 300 * us,
                 .blocks = fixed ? 120 : 132,
                 .threads = 384,
                 .registers = 168})
        .record(computed, compute)
        .launch(comm, {.name = "pack", .duration = 3 * us, .blocks = 1})
        .launch(comm,
                {.name = "SendRecv",
                 .duration = 280 * us,
                 .blocks = 4,
                 .threads = 544,
                 .registers = 96})
        .record(sent, comm)
        .wait(compute, sent)
        .wait(comm, computed);
  }
  return one(program.run());
}

/// NVIDIA/nccl 1433: product and transfer run at once, and both take almost twice as long, as both
/// need the memory's bandwidth. Each also ran alone. Fixed: a product that stays in the cache.
std::vector<Recording> shared_bandwidth(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  Kernel product{
      .name = "gemm", .duration = 200 * us, .blocks = 64, .bandwidth = fixed ? 0.2 : 0.9};
  Kernel transfer{.name = "SendRecv", .duration = 200 * us, .blocks = 16, .bandwidth = 0.8};
  program.thread().launch(compute, product).launch(compute, product).sync_device();
  program.thread().launch(comm, transfer).launch(comm, transfer).sync_device();
  for (int i = 0; i < 10; ++i) {
    program.thread().launch(compute, product).launch(comm, transfer);
  }
  return one(program.run());
}

/// NVIDIA/nccl 338: batch normalisation beside an all-reduce takes 4 to 8 ms instead of 2. Fixed:
/// small messages that need little bandwidth.
std::vector<Recording> slow_batch_norm(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  Kernel norm{.name = "batch_norm_backward", .duration = 2 * ms, .blocks = 200, .bandwidth = 1};
  Kernel reduce{
      .name = "AllReduce", .duration = 2500 * us, .blocks = 16, .bandwidth = fixed ? 0.0 : 1.0};
  reduce.collective = CollectiveOf{.bytes = 50'000'000};
  for (int i = 0; i < 3; ++i) {
    program.thread().launch(compute, norm);  // alone
  }
  for (int i = 0; i < 4; ++i) {
    reduce.collective->sequence = i;
    program.thread().launch(comm, reduce).launch(compute, norm);
  }
  return one(program.run());
}

/// meta-pytorch/torchrec 4303: small uploads in a stream of high priority stand behind a large
/// upload of another stream. Fixed: the large one in pieces, with small ones between.
std::vector<Recording> large_upload_ahead(bool fixed) {
  TraceBuilder program;
  auto const bulk = program.stream();
  auto const main = program.stream(StreamType::non_blocking, -1);
  int const pieces = fixed ? 300 : 1;
  for (int i = 0; i < pieces; ++i) {
    program.thread().copy(bulk, CopyDirection::h2d, 300'000'000 / pieces);  // 6 ms together
  }
  program.second_thread().busy(20 * us);
  for (int i = 0; i < 8; ++i) {
    program.second_thread()
        .copy(main, CopyDirection::h2d, 20'000)
        .launch(main, {.name = "dense", .duration = 600 * us, .blocks = 100});
  }
  return one(program.run());
}

/// Downloads of two streams share the engine of their direction: kernels that follow a small one
/// wait for the large one of the other stream. Fixed: small ones only.
std::vector<Recording> two_downloads(bool fixed) {
  TraceBuilder program;
  auto const logs = program.stream();
  auto const main = program.stream();
  for (int i = 0; i < 6; ++i) {
    program.thread()
        .copy(logs, CopyDirection::d2h, fixed ? 100'000 : 40'000'000)
        .copy(main, CopyDirection::d2h, 100'000)
        .launch(main, {.name = "next", .duration = 500 * us, .blocks = 100});
  }
  return one(program.run());
}

/// A request of high priority waits for the running blocks of a low one, whose blocks are as long
/// as its kernel: priorities do not interrupt. After NVIDIA/nccl 98, where priorities did not help.
/// Fixed: the long kernel consists of many short blocks.
std::vector<Recording> long_blocks(bool fixed) {
  TraceBuilder program;
  auto const low = program.stream();
  auto const high = program.stream(StreamType::non_blocking, -5);
  for (int i = 0; i < 6; ++i) {
    program.thread()
        .launch(low,
                {.name = "batch",
                 .duration = 2 * ms,
                 .blocks = 132 * 8 * (fixed ? 100 : 1),
                 .threads = 256,
                 .registers = 32})
        .busy(200 * us)
        .launch(high, {.name = "request", .duration = 100 * us, .blocks = 132})
        .sync_stream(high);
    program.thread().busy(fixed ? 1800 * us : 0);
  }
  return one(program.run());
}

}  // namespace

std::vector<Case> device_cases() {
  return {
      {"large_products", "pytorch/pytorch 59692", Cause::multiprocessors_full, {}, large_products},
      {"register_heavy", "NVIDIA/TensorRT 2309", Cause::multiprocessors_full, {}, register_heavy},
      {"shared_memory_heavy",
       "NVIDIA/TensorRT 2493",
       Cause::multiprocessors_full,
       {},
       shared_memory_heavy},
      {"product_before_send",
       "NVIDIA/nccl 1431",
       Cause::multiprocessors_full,
       {},
       product_before_send},
      {"shared_bandwidth", "NVIDIA/nccl 1433", Cause::bandwidth_shared, {}, shared_bandwidth},
      {"slow_batch_norm", "NVIDIA/nccl 338", Cause::bandwidth_shared, {}, slow_batch_norm},
      {"large_upload_ahead",
       "meta-pytorch/torchrec 4303",
       Cause::copy_engine,
       {},
       large_upload_ahead},
      {"two_downloads", "", Cause::copy_engine, {}, two_downloads},
      {"long_blocks", "NVIDIA/nccl 98", Cause::priority_cannot_help, {}, long_blocks},
  };
}

}  // namespace msstream::overlap::cases
