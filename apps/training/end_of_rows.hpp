// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/training_data.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

namespace msstream::training {

/// Requires that the loaders of a training, which have given the batches of all epochs, are at the
/// end of the rows. Throws DataError if there are other rows than were counted, by which a file
/// that has changed is noticed in the last epoch too.
template <class Loaders>
void require_end_of_rows(Loaders& loaders, TrainingData const& data) {
  for (auto& loader : loaders) {
    if (loader.next()) {
      throw data::DataError(
          fmt::format("{}: the data has more rows than when they were counted; has a file changed?",
                      data.origin));
    }
  }
}

}  // namespace msstream::training
