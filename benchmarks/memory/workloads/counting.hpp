// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <cstddef>
#include <cstdint>

namespace benchmarks::workloads {

namespace ms = msstream;

/// The number of calls of a runtime's functions, by kind.
struct Calls {
  std::uint64_t records = 0;
  std::uint64_t waits = 0;             ///< waits of a stream for an event
  std::uint64_t queries = 0;           ///< queries whether an event is complete
  std::uint64_t synchronizations = 0;  ///< waits of the host for an event or a stream
  std::uint64_t memory = 0;  ///< calls for device memory: map, move, unmap, allocate, free

  Calls& operator+=(Calls const& other) {
    records += other.records;
    waits += other.waits;
    queries += other.queries;
    synchronizations += other.synchronizations;
    memory += other.memory;
    return *this;
  }
  friend Calls operator-(Calls after, Calls const& before) {
    after.records -= before.records;
    after.waits -= before.waits;
    after.queries -= before.queries;
    after.synchronizations -= before.synchronizations;
    after.memory -= before.memory;
    return after;
  }
};

/// A runtime that counts its calls, separately for each thread. It is not a RuntimeDecorator,
/// because that class observes each operation, and its cost would be measured.
template <ms::Runtime Inner>
class Counting : public Inner {
 public:
  using Inner::Inner;
  using typename Inner::native_event;
  using typename Inner::native_stream;

  /// Returns the counts of calls by the calling thread, on all runtimes of type Counting<Inner>
  /// together.
  [[nodiscard]] static Calls const& calls() noexcept { return calls_; }

  void record(native_event event, native_stream stream) {
    ++calls_.records;
    Inner::record(event, stream);
  }
  void wait(native_stream stream, native_event event) {
    ++calls_.waits;
    Inner::wait(stream, event);
  }
  bool query(native_event event) {
    ++calls_.queries;
    return Inner::query(event);
  }
  void synchronize(native_event event) {
    ++calls_.synchronizations;
    Inner::synchronize(event);
  }
  void synchronize_stream(native_stream stream) {
    ++calls_.synchronizations;
    Inner::synchronize_stream(stream);
  }
  void* allocate_device(std::size_t bytes) {
    ++calls_.memory;
    return Inner::allocate_device(bytes);
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    ++calls_.memory;
    Inner::free_device(memory, bytes);
  }
  void map_pages(void* at, std::size_t bytes) {
    ++calls_.memory;
    Inner::map_pages(at, bytes);
  }
  void move_pages(void* to, void* from, std::size_t bytes) {
    ++calls_.memory;
    Inner::move_pages(to, from, bytes);
  }
  void leave_pages(void* from, std::size_t bytes) noexcept {
    ++calls_.memory;
    Inner::leave_pages(from, bytes);
  }
  void unmap_pages(void* at, std::size_t bytes) noexcept {
    ++calls_.memory;
    Inner::unmap_pages(at, bytes);
  }

 private:
  static inline thread_local Calls calls_;
};

}  // namespace benchmarks::workloads
