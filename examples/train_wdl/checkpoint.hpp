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

/// Writes the file atomically: if the run is killed meanwhile, the earlier file is still whole.
template <ms::Runtime R>
void save_checkpoint(TrainOptions const& options,
                     TrainingData const& data,
                     WideDeep<R> const& model,
                     ms::Optimizer<R> const& optimizer,
                     std::int64_t step) {
  std::deque<std::vector<std::byte>> contents;
  std::vector<ms::data::SavedTensor> tensors;
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
  ms::data::save_safetensors(options.save, tensors, checkpoint_metadata(options, data, step));
}

/// Loads a saved run's tensors, and returns its step. If the file does not fit, throws and changes
/// nothing.
template <ms::Runtime R>
std::int64_t load_checkpoint(TrainOptions const& options,
                             TrainingData const& data,
                             ms::Device<R> const& device,
                             WideDeep<R> const& model,
                             ms::Optimizer<R> const& optimizer) {
  ms::data::SafetensorsFile const file(options.resume);
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
  for_each([](auto const&, auto const&) {});  // checks that every tensor is there and fits
  for_each([&](auto const& tensor, auto const& values) {
    ms::copy(tensor, ms::to_device(device, values, tensor.shape()));
  });
  return step;
}

}  // namespace train_wdl
