// SPDX-License-Identifier: Apache-2.0
#include "fake_cudart.hpp"
#include "fake_device.hpp"

#include <mutex>
#include <ostream>
#include <utility>

namespace fake_cuda {

std::uint64_t Counts::operator[](std::string_view call) const {
  auto const found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

void Counts::add(std::string_view call) {
  auto const found = calls_.find(call);
  if (found == calls_.end()) {
    calls_.emplace(call, 1);
  } else {
    ++found->second;
  }
}

Counts Counts::since(Counts const& before) const {
  Counts difference;
  for (auto const& [call, count] : calls_) {
    if (count != before[call]) {
      difference.calls_.emplace(call, count - before[call]);
    }
  }
  return difference;
}

Counts counts() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  return device.counts;
}

Live live() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  return device.live();
}

std::uint64_t blas_handles() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  return device.blas_handles.size();
}

std::ostream& operator<<(std::ostream& out, Live const& live) {
  return out << live.streams << " streams, " << live.events << " events, "
             << live.device_allocations << " pieces of device memory, " << live.pinned_allocations
             << " of pinned memory, " << live.pages << " pages, " << live.graphs << " graphs";
}

std::vector<std::string> take_misuses() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  return std::exchange(device.misuses, {});
}

BusyDevice::BusyDevice() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  device.busy = true;
}

BusyDevice::~BusyDevice() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  device.busy = false;
}

FailingCall::FailingCall(std::string_view name, std::uint64_t nth) {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  device.failing_call = name;
  device.calls_before_failure = nth;
}

FailingCall::~FailingCall() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  device.failing_call.clear();
}

DriverVersion::DriverVersion(int version) {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  device.driver_version = version;
}

DriverVersion::~DriverVersion() {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  device.driver_version = CUDART_VERSION;
}

}  // namespace fake_cuda
