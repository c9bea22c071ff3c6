// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/msstream.hpp>
#include <msstream/support/counter_random.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace train_ple {

namespace ms = msstream;

/// One batch on the device.
template <ms::Runtime R>
struct DeviceBatch {
  ms::Tensor<std::int64_t, R> keys;  ///< [fields, batch, hotness]
  ms::Tensor<float, R> continuous;   ///< [batch, continuous]
  ms::Tensor<float, R> labels;       ///< [tasks, batch, 1]
};

/// Progressive Layered Extraction (Tang et al. 2020): per level `experts` of each task and as many
/// that the tasks share. A task's gate mixes its own and the shared ones; between levels a gate of
/// the shared experts mixes all. A tower a task gives its logit.
struct PleShape {
  std::vector<std::int64_t> table_rows;  ///< one table a field
  std::int64_t embedding_dim = 16;
  std::int64_t continuous = 13;
  int tasks = 3;
  int levels = 2;
  int experts = 2;
  std::int64_t expert_hidden = 256;
  std::int64_t expert_outputs = 128;
  std::int64_t tower_hidden = 64;
  std::uint64_t seed = 1;

  /// The tasks, and behind them the experts that they share.
  [[nodiscard]] int owners() const noexcept { return tasks + 1; }
  [[nodiscard]] std::int64_t fields() const noexcept {
    return static_cast<std::int64_t>(table_rows.size());
  }
  [[nodiscard]] std::int64_t inputs_of(int level) const noexcept {
    return level == 0 ? fields() * embedding_dim + continuous : expert_outputs;
  }
  [[nodiscard]] bool is_last(int level) const noexcept { return level + 1 == levels; }
  /// How many of the owners have a gate.
  [[nodiscard]] int gates_of(int level) const noexcept { return is_last(level) ? tasks : owners(); }
};

/// Initial values by name: a parameter has the same, whichever tensor it is a part of.
class Initialiser {
 public:
  explicit Initialiser(std::uint64_t seed) : seed_(seed) {}

  /// Appends `count` values, uniform in [-limit, limit).
  void append(std::vector<float>& to,
              std::string_view name,
              std::int64_t count,
              double limit) const {
    auto const stream = std::hash<std::string_view>{}(name);
    for (std::int64_t i = 0; i < count; ++i) {
      double const unit = ms::support::uniform_of(
          ms::support::random_bits(seed_, stream, static_cast<std::uint64_t>(i)));
      to.push_back(static_cast<float>(limit * (2.0 * unit - 1.0)));
    }
  }
  void append_table(std::vector<float>& to, std::int64_t field, std::int64_t count) const {
    append(to, ms::text("table/", field), count, 0.05);
  }
  /// Glorot & Bengio 2010, eq. 16.
  void append_weight(std::vector<float>& to,
                     std::string_view name,
                     std::int64_t inputs,
                     std::int64_t outputs) const {
    append(to, name, inputs * outputs, std::sqrt(6.0 / static_cast<double>(inputs + outputs)));
  }

 private:
  std::uint64_t seed_;
};

inline std::string expert_name(int level, int owner, int expert) {
  return ms::text("level", level, "/owner", owner, "/expert", expert);
}
inline std::string gate_name(int level, int owner) {
  return ms::text("level", level, "/owner", owner, "/gate");
}
inline std::string tower_name(int task) {
  return ms::text("tower", task);
}

/// The weights and biases of a dense layer, or of several of one size.
template <ms::Runtime R>
struct Layer {
  ms::Tensor<float, R> weight;  ///< [inputs, outputs], or [layers, inputs, outputs]
  ms::Tensor<float, R> bias;    ///< [outputs], or [layers, outputs]

  /// A layer a name; more than one, or if `stacked`, in one tensor.
  Layer(ms::Device<R> const& device,
        Initialiser const& initialiser,
        std::vector<std::string> const& names,
        std::int64_t inputs,
        std::int64_t outputs,
        bool stacked)
      : weight(ms::to_device<float, R>(
            device,
            values(initialiser, names, inputs, outputs),
            stacked ? ms::Shape{static_cast<std::int64_t>(names.size()), inputs, outputs}
                    : ms::Shape{inputs, outputs})),
        bias(ms::zeros<float>(device,
                              stacked ? ms::Shape{static_cast<std::int64_t>(names.size()), outputs}
                                      : ms::Shape{outputs})) {}

  [[nodiscard]] ms::Tensor<float, R> operator()(
      ms::GradientTape<R>& tape,
      ms::Tensor<float, R> const& input,
      ms::ops::Activation activation = ms::ops::Activation::none) const {
    return ms::ops::dense(tape, input, weight, bias, activation);
  }

 private:
  static std::vector<float> values(Initialiser const& initialiser,
                                   std::vector<std::string> const& names,
                                   std::int64_t inputs,
                                   std::int64_t outputs) {
    std::vector<float> all;
    for (auto const& name : names) {
      initialiser.append_weight(all, name, inputs, outputs);
    }
    return all;
  }
};

/// What one level of the model has.
template <ms::Runtime R>
struct Level {
  std::vector<Layer<R>> hidden;   ///< of the experts
  std::vector<Layer<R>> outputs;  ///< likewise
  std::vector<Layer<R>> gates;
};

/// `dense(name, tensor)` for the weights and biases of all layers, numbered level by level, then
/// through `towers`, which are vectors of layers.
template <class Dense, ms::Runtime R, class... Towers>
void visit_layers(Dense&& dense, std::vector<Level<R>> const& levels, Towers const&... towers) {
  int number = 0;
  auto const visit = [&](std::vector<Layer<R>> const& layers) {
    for (auto const& layer : layers) {
      auto const name = ms::text("layer", number++);
      dense(name + "/weight", layer.weight);
      dense(name + "/bias", layer.bias);
    }
  };
  for (auto const& level : levels) {
    visit(level.hidden);
    visit(level.outputs);
    visit(level.gates);
  }
  (visit(towers), ...);
}

}  // namespace train_ple
