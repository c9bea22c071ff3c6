// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/embedding_gradient/embedding_update_fixture.hpp"

#include <cstdlib>

namespace msstream::ops::kernels::testing {

/// A fixture for arrays of more than 2^31 elements. It writes and reads only a few rows, so that
/// the host never commits the pages of the other rows.
template <class Stream>
class ManyElements : public UpdateTest<Stream> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    if constexpr (std::is_same_v<Stream, HostStream>) {
      GTEST_SKIP() << "not tested: a sanitizer has notes of every byte";
    }
#endif
    UpdateTest<Stream>::SetUp();
  }

  /// Returns memory with arbitrary contents. If too little memory is free, returns nothing and
  /// skips the test.
  template <class T>
  std::optional<Buffer<T>> many(std::int64_t count) {
    auto const bytes = static_cast<std::size_t>(count) * sizeof(T);
#if MSSTREAM_CUDA
    if constexpr (std::is_same_v<Stream, CudaStream>) {
      std::size_t free_bytes = 0;
      std::size_t total_bytes = 0;
      EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
      if (free_bytes > bytes + bytes / 4) {
        return this->template poisoned<T>(count);
      }
      skip(bytes);
      return {};
    }
#endif
    std::shared_ptr<void> const memory(std::calloc(bytes, 1), std::free);
    if (memory == nullptr) {
      skip(bytes);
      return {};
    }
    return Buffer<T>(memory, static_cast<std::size_t>(count));
  }

  template <class T>
  void set_row(Buffer<T> const& rows, std::int64_t row, std::int64_t width, T value) {
    this->write(rows.slice(row * width, width),
                std::vector<T>(static_cast<std::size_t>(width), value));
  }
  /// Expects all elements of row i to equal values[i].
  template <class T>
  void expect_rows(Buffer<T> const& rows, std::int64_t width, std::vector<T> const& values) {
    auto const found = this->read(rows);
    ASSERT_EQ(found.size(), values.size() * static_cast<std::size_t>(width));
    for (std::size_t row = 0; row < values.size(); ++row) {
      auto const begin = found.begin() + static_cast<std::int64_t>(row) * width;
      EXPECT_TRUE(std::all_of(begin, begin + width, [&](T value) { return value == values[row]; }))
          << "row " << row << " begins with " << +*begin << ", not " << +values[row];
    }
  }

 private:
  static void skip(std::size_t bytes) {
    GTEST_SKIP() << "not tested: " << bytes << " bytes are not free";
  }
};

}  // namespace msstream::ops::kernels::testing
