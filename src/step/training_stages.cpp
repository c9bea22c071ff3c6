// SPDX-License-Identifier: Apache-2.0
#include <msstream/step/two_stage.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/publish.hpp>

namespace msstream::detail {
namespace {

void issue_update(AnyStagedBatch& batch) {
  batch.update();
  batch.forget();
}

}  // namespace

AnyTwoStage::AnyTwoStage(std::shared_ptr<StreamGroup> first,
                         std::shared_ptr<StreamGroup> main,
                         Staleness staleness,
                         std::optional<AnyDevice> captures,
                         std::unique_ptr<AnyStagedBatch> place,
                         std::unique_ptr<AnyStagedBatch> other_place)
    : first_(std::move(first)),
      main_(std::move(main)),
      is_exact_(staleness == Staleness::exact),
      captures_(std::move(captures)),
      places_{{std::move(place)}, {std::move(other_place)}} {}

AnyStagedBatch* AnyTwoStage::run(std::function<void(AnyStagedBatch&)> const& take,
                                 std::source_location issued_at) {
  Place& next = places_[next_];
  begin(next, take, issued_at);
  next_ = 1 - next_;
  return finish(std::exchange(in_flight_, &next), issued_at);
}

AnyStagedBatch* AnyTwoStage::finish(std::source_location issued_at) {
  return finish(std::exchange(in_flight_, nullptr), issued_at);
}

void AnyTwoStage::begin(Place& place,
                        std::function<void(AnyStagedBatch&)> const& take,
                        std::source_location issued_at) {
  auto& batch = *place.batch;
  try {
    NewWork const issued(first_);
    {
      AnyStreamScope const scope(first_, {}, issued_at);
      take(batch);
      auto const issue_ahead = [&] {
        batch.prepare();
        if (!is_exact_) {
          batch.embed();
        }
      };
      issue_or_replay(place, place.ahead, issue_ahead, issued_at);
    }
    issued.publish();
  } catch (...) {
    forget(place);
    throw;
  }
}

AnyStagedBatch* AnyTwoStage::finish(Place* place, std::source_location issued_at) {
  if (place == nullptr) {
    return nullptr;
  }
  auto& batch = *place->batch;
  try {
    AnyStreamScope const scope(main_, {}, issued_at);
    if (is_exact_) {
      auto const issue_rest = [&] {
        batch.embed();
        batch.main();
        issue_update(batch);
      };
      issue_or_replay(*place, place->rest, issue_rest, issued_at);
    } else {
      issue_or_replay(
          *place, place->rest, [&] { batch.main(); }, issued_at);
      issue_or_replay(
          *place, place->update, [&] { issue_update(batch); }, issued_at);
    }
    place->is_warm = true;
  } catch (...) {
    forget(*place);
    throw;
  }
  return &batch;
}

void AnyTwoStage::issue_or_replay(Place const& place,
                                  std::optional<AnyCapturedStep>& part,
                                  std::function<void()> const& issue,
                                  std::source_location issued_at) {
  if (!captures_ || !place.is_warm) {
    issue();
    return;
  }
  if (!part) {
    part.emplace(*captures_, nullptr, issue);
  }
  part->replay(issued_at);
}

void AnyTwoStage::forget(Place& place) {
  place.update.reset();  // all captured parts depend on each other, so none can be kept
  place.rest.reset();
  place.ahead.reset();
  place.batch->forget();
  place.batch->drop_result();
}

}  // namespace msstream::detail
