// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {

/// An array of float32, float16 or bfloat16 as floats. Copies the array unless it has floats.
class Widened {
 public:
  Widened(void const* array, std::int64_t count, DType dtype) {
    if (dtype == DType::float32 || array == nullptr) {
      floats_ = static_cast<float const*>(array);
    } else if (dtype == DType::float16) {
      widen(static_cast<float16 const*>(array), count);
    } else {
      widen(static_cast<bfloat16 const*>(array), count);
    }
  }
  Widened(Widened const&) = delete;
  Widened& operator=(Widened const&) = delete;

  [[nodiscard]] float const* data() const noexcept { return floats_; }

 private:
  template <class T>
  void widen(T const* array, std::int64_t count) {
    copy_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      copy_[static_cast<std::size_t>(i)] = to_float(array[i]);
    }
    floats_ = copy_.data();
  }

  std::vector<float> copy_;
  float const* floats_ = nullptr;
};

/// Gives floats to write for an array of float32, float16 or bfloat16. The destructor rounds them
/// to the array's type, to nearest even. The floats of a half-precision array begin as zeros.
class Narrowed {
 public:
  Narrowed(void* array, std::int64_t count, DType dtype)
      : array_(array), count_(count), dtype_(dtype) {
    if (dtype != DType::float32) {
      floats_.resize(static_cast<std::size_t>(count));
    }
  }
  ~Narrowed() {
    if (dtype_ == DType::float16) {
      narrow(static_cast<float16*>(array_));
    } else if (dtype_ == DType::bfloat16) {
      narrow(static_cast<bfloat16*>(array_));
    }
  }
  Narrowed(Narrowed const&) = delete;
  Narrowed& operator=(Narrowed const&) = delete;

  [[nodiscard]] float* data() noexcept {
    return dtype_ == DType::float32 ? static_cast<float*>(array_) : floats_.data();
  }

 private:
  template <class T>
  void narrow(T* array) const {
    for (std::int64_t i = 0; i < count_; ++i) {
      array[i] = from_float<T>(floats_[static_cast<std::size_t>(i)]);
    }
  }

  void* array_;
  std::int64_t count_;
  DType dtype_;
  std::vector<float> floats_;
};

}  // namespace msstream::ops::kernels
