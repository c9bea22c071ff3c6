// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/base/format.hpp>
#include <msstream/runtime/fault_plan.hpp>

#include <fmt/core.h>

#include <utility>

namespace msstream {

std::string_view name_of(RuntimeCall call) noexcept {
  switch (call) {
    case RuntimeCall::create_stream:
      return "create_stream";
    case RuntimeCall::synchronize_stream:
      return "synchronize_stream";
    case RuntimeCall::create_event:
      return "create_event";
    case RuntimeCall::record:
      return "record";
    case RuntimeCall::wait:
      return "wait";
    case RuntimeCall::query:
      return "query";
    case RuntimeCall::synchronize:
      return "synchronize";
    case RuntimeCall::elapsed_ns:
      return "elapsed_ns";
    case RuntimeCall::allocate_device:
      return "allocate_device";
    case RuntimeCall::allocate_pinned:
      return "allocate_pinned";
    case RuntimeCall::reserve_addresses:
      return "reserve_addresses";
    case RuntimeCall::map_pages:
      return "map_pages";
    case RuntimeCall::move_pages:
      return "move_pages";
    case RuntimeCall::memory_info:
      return "memory_info";
    case RuntimeCall::copy:
      return "copy";
    case RuntimeCall::fill:
      return "fill";
    case RuntimeCall::call_host:
      return "call_host";
    case RuntimeCall::begin_capture:
      return "begin_capture";
    case RuntimeCall::end_capture:
      return "end_capture";
    case RuntimeCall::launch_graph:
      return "launch_graph";
    case RuntimeCall::create_libraries:
      return "create_libraries";
    case RuntimeCall::launch:
      return "launch";
  }
  return "unknown call";
}

std::string_view name_of(Fault fault) noexcept {
  switch (fault) {
    case Fault::out_of_memory:
      return "out_of_memory";
    case Fault::launch_failure:
      return "launch_failure";
    case Fault::sticky:
      return "sticky";
  }
  return "unknown fault";
}

std::string to_string(FaultPlan::Call const& call) {
  auto const of = call.operation.empty() ? std::string() : fmt::format(" of '{}'", call.operation);
  return fmt::format("call {}: {}{}", call.number, call.kind, of);
}

void FaultPlan::fail(std::uint64_t number, Fault fault) {
  require(number >= 1, "FaultPlan::fail: calls are counted from 1");
  aim(Target{std::nullopt, number, fault});
}

void FaultPlan::fail(RuntimeCall kind, std::uint64_t number, Fault fault) {
  require(number >= 1, "FaultPlan::fail: calls are counted from 1");
  aim(Target{kind, number, fault});
}

void FaultPlan::reset() {
  aim(std::nullopt);
}

void FaultPlan::aim(std::optional<Target> target) {
  std::lock_guard const guard(mutex_);
  target_ = target;
  calls_.clear();
  failed_.reset();
  lost_.store(false);
}

std::vector<FaultPlan::Call> FaultPlan::calls() const {
  std::lock_guard const guard(mutex_);
  return calls_;
}

std::uint64_t FaultPlan::call_count() const {
  std::lock_guard const guard(mutex_);
  return calls_.size();
}

std::optional<FaultPlan::Call> FaultPlan::failed() const {
  std::lock_guard const guard(mutex_);
  return failed_;
}

std::optional<Fault> FaultPlan::count(RuntimeCall kind, std::string_view operation) {
  std::lock_guard const guard(mutex_);
  calls_.push_back({calls_.size() + 1, kind, std::string(operation)});
  if (lost_.load()) {
    return Fault::sticky;
  }
  bool const aimed_at = target_ && (!target_->kind || *target_->kind == kind);
  if (!aimed_at || --target_->remaining != 0) {
    return std::nullopt;
  }
  auto const fault = std::exchange(target_, std::nullopt)->fault;
  failed_ = calls_.back();
  lost_.store(fault == Fault::sticky);
  return fault;
}

void detail::throw_fault(Fault fault, RuntimeCall call, std::size_t bytes) {
  constexpr int kMemoryAllocation = 2;
  constexpr int kIllegalAddress = 700;
  constexpr int kLaunchFailure = 719;
  std::string const name(name_of(call));
  bool const allocates = call == RuntimeCall::allocate_device ||
                         call == RuntimeCall::allocate_pinned || call == RuntimeCall::map_pages ||
                         call == RuntimeCall::move_pages;
  switch (fault) {
    case Fault::out_of_memory:
      if (allocates) {
        throw OutOfMemory(bytes, fmt::format("faulty runtime: {} of {} bytes", name, bytes));
      }
      throw CudaError(kMemoryAllocation, "out of memory, on purpose", name);
    case Fault::launch_failure:
      throw CudaError(kLaunchFailure, "launch failure, on purpose", name);
    case Fault::sticky:
      break;
  }
  throw CudaError(kIllegalAddress, "device lost, on purpose", name);
}

}  // namespace msstream
