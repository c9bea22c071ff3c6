// SPDX-License-Identifier: Apache-2.0
// Tests a training that stops in the middle of an epoch and goes on in new objects: its losses and
// parameters have the bits of a training that does not stop.
#include "base/temporary_folder.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/dense_stack.hpp>

#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::int64_t kRowsOfEpoch = 86;  // five batches, and six rows that are left out
constexpr std::int64_t kRowsOfBatch = 16;
constexpr int kBatches = 14;  // the third epoch has four

/// Rows whose contents follow from their number, in chunks of eleven.
class EpochRows final : public data::Reader {
 public:
  [[nodiscard]] data::Schema const& schema() const override { return schema_; }
  bool next(data::Chunk& chunk) override {
    auto const end = std::min(kRowsOfEpoch, row_ + 11);
    bool const has_rows = row_ < end;
    for (; row_ < end; ++row_) {
      for (int i = 0; i < 3; ++i) {
        chunk.floats("x").push_back(0.01F * static_cast<float>((row_ * 37 + i * 11) % 101));
      }
      chunk.ints("id").push_back(row_ * 5 % 23);
      chunk.floats("label").push_back(row_ * 7 % 3 == 0 ? 1.0F : 0.0F);
    }
    return has_rows;
  }
  [[nodiscard]] Position position() const override { return {.offset = row_}; }
  void seek(Position const& position) override { row_ = position.offset; }

 private:
  data::Schema schema_{{{.name = "x", .width = 3},
                        {.name = "id", .type = data::ColumnType::int64},
                        {.name = "label"}}};
  std::int64_t row_ = 0;
};

/// The way in which a training runs, and what it restores when it goes on.
struct RunsAs {
  int groups = 1;
  bool captured = false;
  int micro_batches = 1;
  std::int64_t shuffle_rows = data::kWholeEpoch;
  bool restores_position = true;
  bool restores_random_state = true;
};

/// A model with a table, dropout, and a decayed learning rate.
template <Runtime R>
class EpochTraining {
 public:
  /// Makes a training: a new one, or one that goes on with a checkpoint.
  EpochTraining(Device<R> const& device,
                RunsAs const& runs_as,
                std::optional<std::filesystem::path> const& from = {})
      : device_(device),
        runs_as_(runs_as),
        pool_(device, {.groups = runs_as.groups}),
        parameters_(device, {.seed = from ? 99U : 3U}),
        random_(device, {.seed = from ? 77U : 5U}),
        table_(parameters_.table("table", {23, 4})),
        bottom_(parameters_, "bottom", 3, {6, 4}),
        top_(parameters_, "top", 8, {8, 1}),
        optimizer_(
            device,
            {.kind = ops::OptimizerKind::adamw, .learning_rate = 0.05F, .weight_decay = 0.01F},
            {.schedule = Schedule::cosine({.steps = 12, .warmup = {.steps = 3}}),
             .clip_norm = 0.5F,
             .micro_batches = runs_as.micro_batches}),
        tape_(device) {
    optimizer_.add(parameters_);
    data::LoaderOptions options{.batch_size = kRowsOfBatch,
                                .epochs = 3,
                                .shuffle_rows = runs_as.shuffle_rows,
                                .seed = 8,
                                .last_batch = data::LastBatch::dropped};
    if (from) {
      auto const loaded = checkpoint::load(*from,
                                           checkpoint::Tensors(parameters_, optimizer_, random_),
                                           runs_as.restores_random_state
                                               ? checkpoint::LoadOptions{}
                                               : checkpoint::LoadOptions{.except = {"random"}});
      if (runs_as.restores_position) {
        options.start = data::LoaderPosition::parse(loaded.metadata.at("position"));
      }
    }
    batches_.emplace(device, pool_[0], std::make_shared<EpochRows>(), options);
    for (int i = 0; i < runs_as.micro_batches; ++i) {
      inputs_.push_back({zeros<float>(device, {kRowsOfBatch, 3}),
                         zeros<std::int64_t>(device, {kRowsOfBatch}),
                         zeros<float>(device, {kRowsOfBatch, 1})});
    }
  }

  /// Trains on the next batches, and returns their losses.
  Floats run(int batches) {
    Floats losses;
    for (int i = 0; i < batches; i += runs_as_.micro_batches) {
      for (auto const& inputs : inputs_) {
        auto const batch = batches_->next().value();
        copy(inputs.x, batch.floats("x"));
        copy(inputs.ids, batch.ints("id"));
        copy(inputs.labels, batch.floats("label").reshaped({kRowsOfBatch, 1}));
      }
      update();
      for (auto const& loss : losses_) {
        losses.push_back(to_host(loss)[0]);
      }
    }
    return losses;
  }
  void save(std::filesystem::path const& path) const {
    checkpoint::save(path,
                     checkpoint::Tensors(parameters_, optimizer_, random_),
                     {.metadata = {{"position", to_string(batches_->position())}}});
  }
  /// Returns the parameters and the state of the optimizer.
  [[nodiscard]] std::map<std::string, std::vector<float>> values() const {
    std::map<std::string, std::vector<float>> values;
    auto const keep = [&]<class T>(std::string const& name, Tensor<T, R> const& tensor) {
      auto const elements = to_host(tensor);
      if constexpr (std::same_as<T, float> || std::same_as<T, std::uint8_t>) {
        values[name].assign(elements.begin(), elements.end());
      }
    };
    parameters_.visit_state(keep);
    optimizer_.visit_state(keep);
    return values;
  }

 private:
  struct Inputs {
    Tensor<float, R> x;
    Tensor<std::int64_t, R> ids;
    Tensor<float, R> labels;
  };

  void update() {
    if constexpr (CapturingRuntime<R>) {
      if (runs_as_.captured && !losses_.empty() && !graph_) {
        graph_.emplace(device_, [this] { train(); });
      }
      graph_ ? static_cast<void>(graph_->replay()) : train();
    } else {
      train();
    }
  }
  void train() {
    losses_.clear();
    for (auto const& inputs : inputs_) {
      random_.advance();
      auto const rows = [&] {
        StreamScope<R> const branch(pool_[pool_.groups() - 1], {.include_grad = true});
        return ops::dropout(
            tape_, ops::gather_rows(tape_, table_, inputs.ids), {.rate = 0.3F}, random_, "rows");
      }();
      StreamScope<R> const trunk(pool_[0], {.include_grad = true});
      auto const features = ops::concat(tape_, std::vector{bottom_(tape_, inputs.x), rows});
      auto const logits =
          top_(tape_, ops::dropout(tape_, features, {.rate = 0.2F}, random_, "features"));
      losses_.push_back(ops::mean_bce_with_logits(tape_, logits, inputs.labels));
      tape_.backward(losses_.back());
      if (optimizer_.step(tape_)) {
        tape_.clear();
      }
    }
  }

  Device<R> device_;
  RunsAs runs_as_;
  StreamPool<R> pool_;
  Parameters<R> parameters_;
  RandomGenerator<R> random_;
  Tensor<float, R> table_;
  DenseStack<R> bottom_;
  DenseStack<R> top_;
  Optimizer<R> optimizer_;
  GradientTape<R> tape_;
  std::optional<data::DeviceLoader<R>> batches_;
  std::vector<Inputs> inputs_;
  std::vector<Tensor<float, R>> losses_;
  std::optional<CapturedStep<R>> graph_;
};

template <class R>
class MidEpochTest : public OpsTest<R> {
 protected:
  /// Returns a training that goes on where another one has stopped, after `stop` batches, whose
  /// losses must be those of a training that does not stop.
  EpochTraining<R> resumed(RunsAs const& runs_as, int stop, Floats const& expected) {
    auto const path = folder_ / "stopped.safetensors";
    EpochTraining<R> first(this->device(), runs_as);
    EXPECT_EQ(first.run(stop), Floats(expected.begin(), expected.begin() + stop));
    first.save(path);
    return EpochTraining<R>(this->device(), runs_as, path);
  }

  TemporaryFolder folder_;
};
TYPED_TEST_SUITE(MidEpochTest, Runtimes, RuntimeNames);

TYPED_TEST(MidEpochTest, a_training_that_stops_anywhere_goes_on_with_the_same_bits) {
  for (int const micro_batches : {1, 2}) {
    for (auto const shuffle_rows : {data::kWholeEpoch, std::int64_t{32}}) {
      EpochTraining<TypeParam> at_once(
          this->device(), {.micro_batches = micro_batches, .shuffle_rows = shuffle_rows});
      auto const expected = at_once.run(kBatches);
      auto const values = at_once.values();
      for (int const groups : {1, 2, 4, 8}) {
        for (bool const captured : {false, true}) {
          for (int const updates : {1, 2, 3, 5}) {  // five batches are an epoch
            int const stop = micro_batches * updates;
            SCOPED_TRACE(fmt::format("{} micro-batches, windows of {}, {} groups, {}, stop at {}",
                                     micro_batches,
                                     shuffle_rows,
                                     groups,
                                     captured ? "captured" : "eager",
                                     stop));
            RunsAs const runs_as{.groups = groups,
                                 .captured = captured,
                                 .micro_batches = micro_batches,
                                 .shuffle_rows = shuffle_rows};
            auto second = this->resumed(runs_as, stop, expected);
            EXPECT_EQ(second.run(kBatches - stop), Floats(expected.begin() + stop, expected.end()));
            EXPECT_EQ(second.values(), values);
          }
        }
      }
    }
  }
}

TYPED_TEST(MidEpochTest, the_position_and_the_random_state_are_needed_for_that) {
  EpochTraining<TypeParam> at_once(this->device(), {});
  auto const expected = at_once.run(kBatches);
  Floats const later(expected.begin() + 4, expected.end());
  EXPECT_EQ(this->resumed({}, 4, expected).run(kBatches - 4), later);
  EXPECT_NE(this->resumed({.restores_position = false}, 4, expected).run(kBatches - 4), later);
  EXPECT_NE(this->resumed({.restores_random_state = false}, 4, expected).run(kBatches - 4), later);
}

}  // namespace
}  // namespace msstream::testing
