// SPDX-License-Identifier: Apache-2.0
#include "overlap/cases/mixtures.hpp"

#include "overlap/cases/trace_builder.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>

namespace msstream::overlap::cases {
namespace {

constexpr std::array kPlantable = {Cause::pageable_copy,
                                   Cause::host_busy,
                                   Cause::host_synchronization,
                                   Cause::driver_allocation,
                                   Cause::legacy_stream,
                                   Cause::multiprocessors_full,
                                   Cause::one_stream_two_roles,
                                   Cause::collective_order,
                                   Cause::copy_engine,
                                   Cause::false_dependency};

/// Numbers that are equal on all platforms.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : engine_(seed) {}
  std::int64_t from(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }

 private:
  std::mt19937 engine_;
};

Kernel mixed(std::string name, Ns duration, int blocks = 32) {
  return {.name = std::move(name), .duration = duration, .blocks = blocks};
}

Kernel reduction(std::string name, Ns duration, std::string group, std::int64_t sequence) {
  auto kernel = mixed("ncclDevKernel_" + name, duration, 16);
  kernel.collective = CollectiveOf{std::move(name), std::move(group), sequence, duration};
  return kernel;
}

}  // namespace

Mixture::Mixture(std::uint32_t number) : number_(number) {
  Numbers numbers(number);
  auto const count = numbers.from(1, 3);
  while (static_cast<std::int64_t>(causes_.size()) < count) {
    auto const cause =
        kPlantable.at(static_cast<std::size_t>(numbers.from(0, kPlantable.size() - 1)));
    if (std::ranges::find(causes_, cause) == causes_.end()) {
      causes_.push_back(cause);
    }
  }
}

bool Mixture::is_planted(Cause cause, Cause const* fixed) const {
  return std::ranges::find(causes_, cause) != causes_.end() &&
         (fixed == nullptr || *fixed != cause);
}

Recording Mixture::build(Cause const* fixed) const {
  Numbers numbers(number_ + 1'000);
  auto const has = [&](Cause cause) { return std::ranges::find(causes_, cause) != causes_.end(); };
  auto const planted = [&](Cause cause) { return is_planted(cause, fixed); };
  TraceBuilder program;
  auto const compute = program.stream();
  auto const side = program.stream();
  auto const copies = program.stream();
  auto const logs = program.stream();
  auto const legacy =
      program.stream(planted(Cause::legacy_stream) ? StreamType::legacy : StreamType::non_blocking);
  auto const blocking = program.stream(planted(Cause::legacy_stream) ? StreamType::blocking
                                                                     : StreamType::non_blocking);
  auto const comm = program.stream();
  auto const other_comm = program.stream();
  auto const main_time = numbers.from(60, 300) * us;
  auto const part = numbers.from(80, 250) * us;
  auto const bytes = numbers.from(4, 12) * 1'000'000;
  auto const host_time = numbers.from(150, 900) * us;
  auto const end = numbers.from(0, 2);
  bool const has_graph = numbers.from(0, 2) == 0;
  auto const large = numbers.from(100, 300) * us;
  for (int step = 0; step < 10; ++step) {
    auto& thread = program.thread();
    if (planted(Cause::driver_allocation)) {
      thread.allocate(host_time / 2);
    }
    if (has(Cause::pageable_copy)) {
      auto const uploaded = program.event();
      thread
          .copy(copies,
                CopyDirection::h2d,
                bytes / 2,
                planted(Cause::pageable_copy) ? MemoryKind::pageable : MemoryKind::pinned)
          .record(uploaded, copies)
          .wait(compute, uploaded);
    }
    if (has_graph) {
      thread.launch_graph(
          compute, {{mixed("node 0", main_time / 3), {}}, {mixed("node 1", main_time), {0}}});
    } else {
      thread.launch(compute, mixed("forward", main_time))
          .launch(compute, mixed("backward", main_time / 2));
    }
    if (has(Cause::one_stream_two_roles)) {
      bool const shares = planted(Cause::one_stream_two_roles);
      thread.copy(shares ? compute : copies, CopyDirection::h2d, 2 * bytes)
          .launch(compute, mixed("after upload", main_time));
    }
    if (has(Cause::legacy_stream)) {
      for (int i = 0; i < 2; ++i) {
        thread.launch(legacy, mixed("default", part)).launch(blocking, mixed("blocking", part));
      }
    }
    if (has(Cause::multiprocessors_full)) {
      int const blocks = planted(Cause::multiprocessors_full) ? 132 * 8 : 60;
      thread.launch(compute, mixed("gemm 0", part, blocks))
          .launch(side, mixed("gemm 1", part, blocks));
    }
    if (has(Cause::collective_order)) {
      bool const one = planted(Cause::collective_order);
      auto const ready = program.event();
      auto const reduced = program.event();
      thread.record(ready, compute)
          .wait(comm, ready)
          .wait(other_comm, ready)
          .launch(comm, reduction("AllToAll", 2 * part, "a", 2 * step))
          .launch(one ? comm : other_comm,
                  reduction("AllReduce", part / 4, one ? "a" : "b", 2 * step + 1))
          .record(reduced, one ? comm : other_comm)
          .wait(compute, reduced)
          .launch(compute, mixed("optimizer", 2 * part));
    }
    if (has(Cause::copy_engine)) {
      auto const computed = program.event();
      auto const read = program.event();
      thread.record(computed, compute).wait(logs, computed).wait(copies, computed);
      auto const log = [&] { thread.copy(logs, CopyDirection::d2h, 50 * large); };
      if (planted(Cause::copy_engine)) {
        log();
      }
      thread.copy(copies, CopyDirection::d2h, 100'000).record(read, copies).wait(compute, read);
      if (!planted(Cause::copy_engine)) {
        log();
      }
      thread.launch(compute, mixed("after download", large));
    }
    if (has(Cause::false_dependency)) {
      auto const forked = program.event();
      auto const joined = program.event();
      bool const late = planted(Cause::false_dependency);
      thread.launch(compute, mixed("produce", 30 * us));
      if (!late) {
        thread.record(forked, compute).wait(side, forked);
      }
      thread.launch(compute, mixed("unrelated", part)).launch(compute, mixed("more", part / 2));
      if (late) {
        thread.record(forked, compute).wait(side, forked);
      }
      thread.launch(side, mixed("branch 0", part)).launch(side, mixed("branch 1", part / 3));
      thread.record(joined, side).wait(compute, joined).launch(compute, mixed("join", 20 * us));
    }
    if (planted(Cause::host_synchronization)) {
      if (end == 0) {
        thread.sync_device();
      } else {
        if (end == 1) {
          thread.copy(compute, CopyDirection::d2h, 4, MemoryKind::pageable);
        }
        thread.sync_stream(compute);
      }
    }
    if (has(Cause::host_synchronization)) {
      thread.busy(host_time / 6);
    }
    if (planted(Cause::host_busy)) {
      thread.busy(host_time);
    }
  }
  return program.run();
}

}  // namespace msstream::overlap::cases
