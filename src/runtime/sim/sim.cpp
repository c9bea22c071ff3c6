// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/sim_machine.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/sim.hpp>

#include <fmt/core.h>

#include <utility>

namespace msstream {

/// A simulated event: the point of a stream at which it was recorded last, and the virtual time at
/// which the stream reached that point.
struct Sim::Event {
  EventTiming timing;
  bool recorded = false;
  sim::Point point{};
  /// The time at which the stream reaches the event. Each recording allocates a new number, because
  /// an earlier recording may not have been reached yet.
  std::shared_ptr<double> time{};
};

Sim::Sim() : Sim(Options()) {}

Sim::Sim(Options const& options)
    : machine_(std::make_shared<sim::Machine>(options.schedule, options.cost, options.runs_work)),
      memory_bytes_(options.memory_bytes) {
  if (options.on_start) {
    options.on_start(machine_);
  }
}

Sim::~Sim() {
  try {
    machine_->finish();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the schedule does not fit the program
  }
}

Sim::native_stream Sim::create_stream(StreamPriority) {
  return machine_->create_stream();
}

void Sim::destroy_stream(native_stream) noexcept {}  // the stream is destroyed with the simulation

void Sim::synchronize_stream(native_stream stream) {
  machine_->synchronize(stream->tail());
}

Sim::native_event Sim::create_event(EventTiming timing) {
  return new Event{timing};
}

void Sim::destroy_event(native_event event) noexcept {
  delete event;
}

void Sim::record(native_event event, native_stream stream) {
  auto time = event->timing == EventTiming::timed ? std::make_shared<double>() : nullptr;
  machine_->record(*stream, time);
  event->recorded = true;
  event->point = stream->tail();
  event->time = std::move(time);
}

void Sim::wait(native_stream stream, native_event event) {
  if (event->recorded) {
    machine_->wait(*stream, event->point);
  }
}

bool Sim::query(native_event event) {
  return !event->recorded || machine_->query(event->point);
}

void Sim::synchronize(native_event event) {
  if (event->recorded) {
    machine_->synchronize(event->point);
  }
}

double Sim::elapsed_ns(native_event begin, native_event end) {
  auto const from = begin->time;
  auto const to = end->time;
  require(from != nullptr && to != nullptr, "elapsed_ns: both events must be timed and recorded");
  machine_->synchronize(begin->point);
  machine_->synchronize(end->point);
  return *to - *from;
}

void* Sim::allocate_device(std::size_t bytes) {
  machine_->enter();
  if (bytes > memory_bytes_ - allocated_bytes_) {
    throw OutOfMemory(
        bytes,
        fmt::format(
            "simulation: {} bytes asked, {} of {} in use", bytes, allocated_bytes_, memory_bytes_));
  }
  void* const memory = sim::SimMemory::allocate(bytes);
  allocated_bytes_ += bytes;
  return memory;
}

void Sim::free_device(void* memory, std::size_t bytes) noexcept {
  allocated_bytes_ -= bytes;
  machine_->release(memory, bytes);
}

void* Sim::allocate_pinned(std::size_t bytes) {
  machine_->enter();
  void* const memory = sim::SimMemory::allocate(bytes);
  machine_->add_undeclared_host_memory(memory, bytes);
  return memory;
}

void Sim::free_pinned(void* memory, std::size_t bytes) noexcept {
  machine_->remove_undeclared_host_memory(memory);
  machine_->release(memory, bytes);
}

MemoryInfo Sim::memory_info() const {
  return {memory_bytes_ - allocated_bytes_, memory_bytes_};
}

void Sim::copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream) {
  machine_->copy(to, from, bytes, kind, *stream);
}

void Sim::fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
  machine_->fill(memory, value, bytes, *stream);
}

void Sim::call_host(native_stream stream, Closure closure) {
  machine_->call_host(*stream, std::move(closure));
}

void Sim::hold(native_stream stream, std::shared_ptr<std::atomic<bool>> open) {
  machine_->hold(*stream, std::move(open));
}

Sim::stream_ref Sim::ref(native_stream stream, native_libraries) const {
  return HostStream(*stream);
}

void Sim::make_current() const {
  machine_->enter();
}

OperationHandle Sim::declare(Operation operation) {
  return std::make_shared<Operation const>(std::move(operation));
}

void Sim::operation_begins(OperationHandle const& operation, native_stream stream) {
  machine_->begin_operation(*stream, operation);
}

void Sim::operation_ends(OperationHandle const&, native_stream stream, Outcome) noexcept {
  machine_->end_operation(*stream);
}

void Sim::memory_pooled(void const* memory, std::size_t) {
  // Removes the whole block from the memory that the host may use undeclared: once an allocator
  // manages the block, the owners of its parts declare the host's uses.
  machine_->remove_undeclared_host_memory(memory);
}

void Sim::host_uses(MemoryUse const& use) {
  machine_->host_uses(use);
}

double Sim::host_time_ns() const noexcept {
  return machine_->host_time_ns();
}

std::uint64_t Sim::executed() const noexcept {
  return machine_->executed();
}

}  // namespace msstream
