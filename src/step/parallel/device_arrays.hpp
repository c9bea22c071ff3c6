// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <tuple>
#include <vector>

namespace msstream::detail {

/// Arrays in device memory that operations read, and nobody writes. They are in one tensor, which
/// operations name among what they read: so captured steps keep it.
class DeviceArrays {
 public:
  /// Copies arrays to the device, where they live as long as this object and what uses them, and
  /// returns their addresses there. To be called once.
  template <class... T>
  [[nodiscard]] std::tuple<T const*...> uploaded(std::shared_ptr<DeviceState> const& device,
                                                 std::source_location issued_at,
                                                 std::vector<T> const&... arrays) {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> begins;
    auto const append = [&](auto const& array) {
      begins.push_back(bytes.size());
      auto const own = array.size() * sizeof(array[0]);
      bytes.resize(bytes.size() + (own + kAlignment - 1) / kAlignment * kAlignment);
      if (own > 0) {
        std::memcpy(bytes.data() + begins.back(), array.data(), own);
      }
    };
    (append(arrays), ...);
    all_.emplace(OfKnownType(),
                 upload(device,
                        DType::uint8,
                        bytes.data(),
                        bytes.size(),
                        {static_cast<std::int64_t>(bytes.size())},
                        issued_at));
    all_->freeze();
    auto begin = begins.begin();
    return {reinterpret_cast<T const*>(all_->data() + *begin++)...};
  }

  /// The tensor of the arrays.
  [[nodiscard]] TensorOf<std::uint8_t> const& all() const { return *all_; }

 private:
  static constexpr std::size_t kAlignment = 16;

  std::optional<TensorOf<std::uint8_t>> all_;
};

}  // namespace msstream::detail
