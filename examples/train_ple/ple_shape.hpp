// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/click_batch.hpp"
#include "training/layer.hpp"

#include <msstream/msstream.hpp>
#include <msstream/ops/precision.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace train_ple {

namespace ms = msstream;
using ms::training::Layer;

/// The tensors of one batch on the device.
template <ms::Runtime R>
using DeviceBatch = ms::training::ClickBatch<R>;

/// The shape of a model of Progressive Layered Extraction (Tang et al. 2020). Each level has
/// `experts` experts for each task and as many that all tasks share. The gate of a task mixes the
/// task's own and the shared experts; between levels, the gate of the shared experts mixes all
/// experts. One tower per task gives the task's logit.
struct PleShape {
  std::vector<std::int64_t> table_rows;  ///< one table per field
  std::int64_t embedding_dim = 16;
  std::int64_t continuous = 13;
  int tasks = 3;
  int levels = 2;
  int experts = 2;
  std::int64_t expert_hidden = 256;
  std::int64_t expert_outputs = 128;
  std::int64_t tower_hidden = 64;
  /// The type of experts, gates and towers: of their products and of the values between them.
  /// Lookups, the softmax of gates, logits and losses are float32.
  ms::Precision precision = ms::Precision::fp32;
  std::uint64_t seed = 1;

  /// Returns the number of owners of experts: one per task, and a last one for the experts that the
  /// tasks share.
  [[nodiscard]] int owners() const noexcept { return tasks + 1; }
  [[nodiscard]] std::int64_t fields() const noexcept {
    return static_cast<std::int64_t>(table_rows.size());
  }
  /// Returns the number of columns of zeros that are appended to the inputs of the first level, so
  /// that rows begin at multiples of 16 bytes, which a matrix product can load at a time. The
  /// weights of these columns do not change, and have no effect.
  [[nodiscard]] std::int64_t padding() const noexcept {
    constexpr std::int64_t kTogether = 4;
    return -(fields() * embedding_dim + continuous) & (kTogether - 1);
  }
  [[nodiscard]] std::int64_t inputs_of(int level) const noexcept {
    return level == 0 ? fields() * embedding_dim + continuous + padding() : expert_outputs;
  }
  [[nodiscard]] bool is_last(int level) const noexcept { return level + 1 == levels; }
  /// Returns the number of gates on a level: one for each task and, except on the last level, one
  /// for the shared experts.
  [[nodiscard]] int gates_of(int level) const noexcept { return is_last(level) ? tasks : owners(); }
};

inline std::string table_name(std::int64_t field) {
  return fmt::format("field{}", field);
}
inline std::string expert_name(int level, int owner, int expert) {
  return fmt::format("level{}/owner{}/expert{}", level, owner, expert);
}
inline std::string gate_name(int level, int owner) {
  return fmt::format("level{}/owner{}/gate", level, owner);
}
inline std::string tower_name(int task) {
  return fmt::format("tower{}", task);
}

/// The input columns of the first level that are not embeddings: the continuous values, and the
/// padding.
template <ms::Runtime R>
class OtherColumns {
 public:
  explicit OtherColumns(PleShape const& shape) : padding_(shape.padding()) {}

  /// Appends the continuous values and the padding to `columns`. They get no gradient.
  void append(ms::GradientTape<R>& tape,
              ms::Tensor<float, R> const& continuous,
              std::vector<ms::Tensor<float, R>>& columns) const {
    tape.without_gradient(continuous);
    columns.push_back(continuous);
    if (padding_ != 0) {
      auto const& zeros = zeros_for(tape.device(), continuous.shape()[0]);
      tape.without_gradient(zeros);
      columns.push_back(zeros);
    }
  }

 private:
  /// Returns zeros for the padding of a batch of `rows` rows. The tensor is made on first use.
  [[nodiscard]] ms::Tensor<float, R> const& zeros_for(ms::Device<R> const& device,
                                                      std::int64_t rows) const {
    auto const found = zeros_.find(rows);
    return found != zeros_.end()
               ? found->second
               : zeros_.emplace(rows, ms::zeros<float>(device, {rows, padding_})).first->second;
  }

  std::int64_t padding_;
  mutable std::map<std::int64_t, ms::Tensor<float, R>> zeros_;
};

/// The layers of one level of experts and gates.
template <ms::Runtime R>
struct Level {
  std::vector<Layer<R>> hidden;   ///< hidden layers of the experts
  std::vector<Layer<R>> outputs;  ///< output layers of the experts
  std::vector<Layer<R>> gates;
};

}  // namespace train_ple
