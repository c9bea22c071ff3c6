// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstdint>
#include <memory>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// Arrays in device memory that operations read, and nobody writes. Operations name them among what
/// they read, so that captured steps keep them.
class DeviceArrays {
 public:
  explicit DeviceArrays(std::shared_ptr<DeviceState> device) : device_(std::move(device)) {}

  /// Copies an array to the device, where it lives as long as this object. Returns null for an
  /// empty one.
  template <class T>
  [[nodiscard]] T const* uploaded(std::vector<T> const& values, std::source_location issued_at) {
    if (values.empty()) {
      return nullptr;
    }
    auto const bytes = values.size() * sizeof(T);
    arrays_.emplace_back(OfKnownType(),
                         upload(device_,
                                DType::uint8,
                                values.data(),
                                bytes,
                                {static_cast<std::int64_t>(bytes)},
                                issued_at));
    arrays_.back().freeze();
    return reinterpret_cast<T const*>(arrays_.back().data());
  }

  /// Returns what an operation reads, with all arrays.
  template <class Reads>
  [[nodiscard]] Reads added_to(Reads read) const {
    for (auto const& array : arrays_) {
      read.add(array);
    }
    return read;
  }

 private:
  std::shared_ptr<DeviceState> device_;
  std::vector<TensorOf<std::uint8_t>> arrays_;
};

}  // namespace msstream::detail
