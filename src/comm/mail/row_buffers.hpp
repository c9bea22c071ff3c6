// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace msstream::comm::detail {

/// Tensors in which the ranks gather the rows of large lookups, kept from step to step, to which
/// copy engines of the other ranks write: all ranks make such memory together, which takes long. A
/// step overwrites the rows of the one before.
class RowBuffers {
  using Floats = msstream::detail::Floats;

 public:
  RowBuffers() = default;
  /// Returns one that has no memory, for rows that are used beside those of another step.
  [[nodiscard]] static RowBuffers of_one_step() {
    RowBuffers buffers;
    buffers.has_room_ = false;
    return buffers;
  }

  /// Returns a tensor of the shape [rows, width] for the rows of all ranks, as many of each; null
  /// if memory of any kind serves as well, or a capture would have to make it. `number` is that of
  /// the first table of the lookup in the step. All ranks call it alike.
  [[nodiscard]] std::optional<Floats> rows(std::size_t number,
                                           std::int64_t rows,
                                           std::int64_t width,
                                           AnyCommunicator const& communicator) {
    auto& kept = kept_[number];
    if (auto const use = std::exchange(kept.use, nullptr)) {
      use();
    }
    if (!kept.memory || kept.memory->shape()[1] != width || kept.memory->shape()[0] < rows) {
      auto const bytes = static_cast<std::size_t>(rows * width) * sizeof(float);
      if (!has_room_ || !may_make_symmetric(communicator, bytes)) {
        return std::nullopt;
      }
      kept.memory.reset();
      kept.memory = made({rows, width}, communicator);
    }
    return kept.memory ? std::optional(kept.memory->rows(0, rows)) : std::nullopt;
  }
  /// Has `use`, which reads the rows of a lookup, called before they are overwritten, if they are
  /// in memory that is kept.
  void read_before_next(std::size_t number, std::function<void()> use) {
    if (auto& kept = kept_[number]; kept.memory) {
      kept.use = std::move(use);
    }
  }

 private:
  struct Kept {
    std::optional<Floats> memory;
    std::function<void()> use;
  };

  [[nodiscard]] std::optional<Floats> made(Shape const& shape,
                                           AnyCommunicator const& communicator) {
    try {
      return Floats(msstream::detail::OfKnownType(),
                    symmetric_tensor(communicator, DType::float32, shape));
    } catch (PeerLost const&) {
      throw;
    } catch (OutOfMemory const&) {
      throw;
    } catch (std::runtime_error const&) {
      has_room_ = false;  // some rank has too little memory beside that of its allocator
      return std::nullopt;
    }
  }

  std::map<std::size_t, Kept> kept_;
  bool has_room_ = true;
};

}  // namespace msstream::comm::detail
