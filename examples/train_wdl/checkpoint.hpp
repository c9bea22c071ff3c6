// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint_file.hpp"
#include "wide_deep.hpp"

#include <msstream/memory/device.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace train_wdl {

/// Visits everything that a run must save to continue with the same bits: parameters and optimizer
/// state, by name.
template <ms::Runtime R, class Visit>
void visit_saved_tensors(WideDeep<R> const& model,
                         ms::Optimizer<R> const& optimizer,
                         Visit&& visit) {
  model.visit_parameters(visit, visit);
  optimizer.visit_state(visit);
}

/// Saves a checkpoint of the training. The file is replaced atomically: if the run is killed
/// meanwhile, the earlier file is still whole.
template <ms::Runtime R>
void save_checkpoint(TrainOptions const& options,
                     TrainingData const& data,
                     WideDeep<R> const& model,
                     ms::Optimizer<R> const& optimizer,
                     std::int64_t step) {
  std::deque<std::vector<std::byte>> contents;
  std::vector<ms::datasets::SavedTensor> tensors;
  visit_saved_tensors(model,
                      optimizer,
                      [&]<ms::Element T>(std::string const& name, ms::Tensor<T, R> const& tensor) {
                        auto const elements = ms::to_host(tensor);
                        auto const bytes = std::as_bytes(std::span(elements));
                        auto const& kept = contents.emplace_back(bytes.begin(), bytes.end());
                        std::vector<std::int64_t> extents;
                        for (std::size_t i = 0; i < tensor.shape().rank(); ++i) {
                          extents.push_back(tensor.shape()[i]);
                        }
                        tensors.emplace_back(
                            name,
                            std::move(extents),
                            std::span(reinterpret_cast<T const*>(kept.data()), elements.size()));
                      });
  ms::datasets::save_safetensors(options.save, tensors, checkpoint_metadata(options, data, step));
}

/// Loads the tensors of a checkpoint, and returns the step at which it was saved. If the file does
/// not fit the options and the model, throws and changes nothing.
template <ms::Runtime R>
std::int64_t load_checkpoint(TrainOptions const& options,
                             TrainingData const& data,
                             ms::Device<R> const& device,
                             WideDeep<R> const& model,
                             ms::Optimizer<R> const& optimizer) {
  ms::datasets::SafetensorsFile const file(options.resume);
  std::int64_t const step = step_of_checkpoint(file, options, data);
  auto const for_each = [&](auto&& place) {
    visit_saved_tensors(
        model,
        optimizer,
        [&]<ms::Element T>(std::string const& name, ms::Tensor<T, R> const& tensor) {
          std::vector<std::int64_t> extents;
          for (std::size_t i = 0; i < tensor.shape().rank(); ++i) {
            extents.push_back(tensor.shape()[i]);
          }
          place(tensor, file.values<T>(name, extents));
        });
  };
  // Reads every tensor once before any is changed, which throws if one is missing or does not fit.
  for_each([](auto const&, auto const&) {});
  for_each([&](auto const& tensor, auto const& values) {
    ms::copy(tensor, ms::to_device(device, values, tensor.shape()));
  });
  return step;
}

}  // namespace train_wdl
