// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/observing.hpp>
#include <msstream/runtime/sim.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

/// A program for the simulating runtime: its streams run operations on cells of device memory, and
/// the operations declare which cells they use.
class SimProgram {
 public:
  using Use = std::pair<std::size_t, AccessMode>;

  static constexpr std::size_t kCells = 24;

  SimProgram(Sim::Options const& options, std::size_t streams)
      : runtime_(options),
        cells_(
            static_cast<std::uint32_t*>(runtime_.allocate_device(kCells * sizeof(std::uint32_t)))),
        pinned_(static_cast<std::uint32_t*>(runtime_.allocate_pinned(sizeof(std::uint32_t)))) {
    runtime_.memory_pooled(pinned_, sizeof(std::uint32_t));  // look_at_copy() declares its reads
    for (std::size_t i = 0; i < streams; ++i) {
      streams_.push_back(runtime_.create_stream(StreamPriority::normal));
    }
  }
  SimProgram(SimProgram const&) = delete;
  SimProgram& operator=(SimProgram const&) = delete;
  ~SimProgram() {
    for (auto* const event : events_) {
      runtime_.destroy_event(event);
    }
    runtime_.free_device(cells_, kCells * sizeof(std::uint32_t));
    runtime_.free_pinned(pinned_, sizeof(std::uint32_t));
  }

  [[nodiscard]] Sim& runtime() noexcept { return runtime_; }
  [[nodiscard]] Sim::native_stream stream(std::size_t s) const { return streams_[s]; }

  /// Issues an operation that mixes the values of all cells that it uses, and `salt`, into the
  /// cells that it writes. The final values of the cells show in which order the operations ran
  /// that share a written cell.
  void operation(std::size_t s, std::vector<Use> const& uses, std::uint32_t salt) {
    std::vector<MemoryUse> declared;
    for (auto const& [cell, mode] : uses) {
      declared.push_back({&cells_[cell], sizeof(std::uint32_t), mode});
    }
    auto const operation = runtime_.declare(Operation{"op", "lane", {}, {}, std::move(declared)});
    runtime_.operation_begins(operation, streams_[s]);
    runtime_.ref(streams_[s], nullptr).run([cells = cells_, uses, salt] {
      std::uint32_t mixed = salt;
      for (auto const& use : uses) {
        mixed = (mixed + cells[use.first]) * 31;
      }
      for (auto const& [cell, mode] : uses) {
        if (mode == AccessMode::write) {
          cells[cell] = mixed;
        }
      }
    });
    runtime_.operation_ends(operation, streams_[s], Outcome::launched);
  }
  void writes(std::size_t s, std::size_t cell, std::uint32_t salt) {
    operation(s, {{cell, AccessMode::write}}, salt);
  }
  /// Makes later work of stream `waiting` wait for the work that stream `source` has now.
  void wait(std::size_t waiting, std::size_t source) {
    runtime_.wait(streams_[waiting], record(source));
  }
  Sim::native_event record(std::size_t s) {
    events_.push_back(runtime_.create_event(EventTiming::untimed));
    runtime_.record(events_.back(), streams_[s]);
    return events_.back();
  }
  void copy_out(std::size_t s, std::size_t cell) {
    runtime_.copy(pinned_, &cells_[cell], sizeof(std::uint32_t), CopyKind::d2h, streams_[s]);
  }
  [[nodiscard]] std::uint32_t look_at_copy() {
    runtime_.host_uses({pinned_, sizeof(std::uint32_t), AccessMode::read});
    return *pinned_;
  }
  /// Waits for all streams and returns the values of all cells.
  [[nodiscard]] std::vector<std::uint32_t> cells() {
    for (auto* const s : streams_) {
      runtime_.synchronize_stream(s);
    }
    return {cells_, cells_ + kCells};
  }

 private:
  Sim runtime_;
  std::uint32_t* cells_;
  std::uint32_t* pinned_;
  std::vector<Sim::native_stream> streams_;
  std::vector<Sim::native_event> events_;
};

}  // namespace msstream::testing
