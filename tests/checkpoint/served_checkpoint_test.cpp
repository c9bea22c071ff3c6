// SPDX-License-Identifier: Apache-2.0
// Tests checkpoints for serving: averages under the names of weights, other names, transposed
// matrices, and frozen models.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "memory/runtimes.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/writer.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/parameter_averages.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <numeric>
#include <stdexcept>

namespace msstream::testing {
namespace {

using checkpoint::Tensors;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class R>
class ServedCheckpoint : public RuntimeTest<R> {
 protected:
  [[nodiscard]] Parameters<R> constant_store(float value) const {
    Parameters<R> parameters(device_);
    (void)parameters.dense("w", {2, 1}, init::constant(value));
    (void)parameters.template table<float16>("users", {2, 1}, init::constant(value));
    return parameters;
  }
  [[nodiscard]] Tensor<float, R> full(Shape const& shape, float value) const {
    return to_device(
        device_, std::vector<float>(static_cast<std::size_t>(shape.count()), value), shape);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  Device<R> device_;
};
TYPED_TEST_SUITE(ServedCheckpoint, Runtimes, RuntimeNames);

TYPED_TEST(ServedCheckpoint, averages_are_saved_as_the_weights_of_a_model) {
  auto trained = this->constant_store(1.0F);
  ParameterAverages<TypeParam> averages(0.75F);
  averages.add(trained);
  copy(trained.find("w"), this->full({2, 1}, 5.0F));
  averages.update();
  checkpoint::save(this->path_, Tensors(averages.as_weights(trained)));
  auto served = this->constant_store(0.0F);
  checkpoint::load(this->path_, Tensors(served));
  EXPECT_THAT(to_host(served.find("w")), Each(2.0F));  // 0.75 * 1 + 0.25 * 5
  EXPECT_EQ(to_float(to_host(served.template find<float16>("users")).front()), 1.0F);
  EXPECT_THAT(to_host(trained.find("w")), Each(5.0F));
  auto const others = this->constant_store(0.0F);
  EXPECT_THROW(Tensors(averages.as_weights(others)), std::invalid_argument);
}

TYPED_TEST(ServedCheckpoint, averages_of_16_bits_are_saved_as_they_are_then) {
  auto trained = this->constant_store(1.0F);
  auto const users = trained.template find<float16>("users");
  ParameterAverages<TypeParam> averages(0.75F);
  averages.add(trained, "users");
  Tensors const tensors(averages.as_weights(trained));
  checkpoint::Writer writer(tensors, {.folder = this->folder_ / "run"});
  auto const saved = [&] {
    checkpoint::save(this->path_, tensors);
    auto served = this->constant_store(0.0F);
    checkpoint::load(this->path_, Tensors(served));
    return to_float(to_host(served.template find<float16>("users")).front());
  };
  EXPECT_EQ(saved(), 1.0F);
  copy(users, to_device(this->device_, std::vector(2, from_float<float16>(5.0F)), {2, 1}));
  averages.update();
  EXPECT_EQ(saved(), 2.0F);  // 0.75 * 1 + 0.25 * 5
  averages.update();
  writer.save({.step = 1});
  writer.wait();
  auto served = this->constant_store(0.0F);
  checkpoint::load(writer.path_of(1), Tensors(served));
  EXPECT_EQ(to_float(to_host(served.template find<float16>("users")).front()), 2.75F);
  EXPECT_EQ(to_float(to_host(users).front()), 5.0F);
  EXPECT_THAT(message_of<std::logic_error>([&] { checkpoint::load(this->path_, tensors); }),
              AllOf(HasSubstr("checkpoint::load: \"users\""), HasSubstr("rounded")));
  auto const swapped = averages.swap_in();
  EXPECT_THROW(checkpoint::save(this->path_, tensors), std::logic_error);
}

TYPED_TEST(ServedCheckpoint, a_checkpoint_of_a_training_is_served_with_its_averages) {
  auto const made = [&](std::uint64_t seed) {
    Parameters<TypeParam> parameters(this->device_, {.seed = seed});
    (void)parameters.dense("w", {7, 3}, init::uniform(-1.0F, 1.0F));
    (void)parameters.template table<float16>("users", {9, 5}, init::uniform(-1.0F, 1.0F));
    (void)parameters.template table<bfloat16>("items", {9, 5}, init::uniform(-1.0F, 1.0F));
    (void)parameters.template table<float16>("no average", {2, 1}, init::uniform(-1.0F, 1.0F));
    return parameters;
  };
  auto trained = made(1);
  auto const later = made(2);
  ParameterAverages<TypeParam> averages(0.6F);
  averages.add(trained);
  averages.add(trained, "users");
  averages.add(trained, "items");
  copy(trained.find("w"), later.find("w"));
  copy(trained.template find<float16>("users"), later.template find<float16>("users"));
  copy(trained.template find<bfloat16>("items"), later.template find<bfloat16>("items"));
  averages.update();
  checkpoint::save(this->path_, Tensors(trained, averages));
  checkpoint::save(this->folder_ / "weights", Tensors(averages.as_weights(trained)));

  auto const loaded = made(3);
  auto const found = checkpoint::load(this->path_, Tensors(loaded), {.averages = true});
  EXPECT_THAT(found.unexpected, IsEmpty());
  checkpoint::save(this->folder_ / "loaded", Tensors(loaded));
  EXPECT_EQ(read_all(this->folder_ / "loaded"), read_all(this->folder_ / "weights"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                checkpoint::load(this->folder_ / "weights", Tensors(loaded), {.averages = true});
              }),
              HasSubstr("no averages, average/<name>, in the file"));
}

TYPED_TEST(ServedCheckpoint, swapped_weights_are_neither_saved_nor_loaded) {
  auto trained = this->constant_store(1.0F);
  ParameterAverages<TypeParam> averages(0.5F);
  averages.add(trained);
  Tensors const weights(trained);
  Tensors const of_averages(averages);
  checkpoint::save(this->path_, weights);
  checkpoint::Writer writer(weights, {.folder = this->folder_ / "run"});
  auto const refused = [](auto&& call, char const* name) {
    EXPECT_THAT(message_of<std::logic_error>(call), AllOf(HasSubstr(name), HasSubstr("swap_in()")));
  };
  {
    auto const swapped = averages.swap_in();
    refused([&] { checkpoint::save(this->path_, weights); }, "checkpoint::save: \"w\"");
    refused([&] { checkpoint::save(this->path_, of_averages); }, "\"average/w\"");
    refused([&] { checkpoint::load(this->path_, weights); }, "checkpoint::load: \"w\"");
    refused([&] { writer.save({.step = 1}); }, "checkpoint::Writer::save: \"w\"");
    refused([&] { Tensors(averages.as_weights(trained)); }, "as_weights");
  }
  EXPECT_NO_THROW(checkpoint::save(this->path_, weights));
  EXPECT_NO_THROW(checkpoint::save(this->path_, of_averages));
}

TYPED_TEST(ServedCheckpoint, tensors_have_other_names_in_the_file) {
  checkpoint::save(this->path_,
                   Tensors()
                       .add("average/w", this->full({2}, 1.0F))
                       .add("w", this->full({2}, 2.0F))
                       .add("average/v", this->full({3}, 3.0F)));
  auto const w = this->full({2}, 0.0F);
  auto const v = this->full({3}, 0.0F);
  Tensors const tensors = Tensors().add("w", w).add("v", v);
  auto const average = [](std::string const& name) { return "average/" + name; };
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { checkpoint::load(this->path_, tensors, {.rename = average}); }),
              HasSubstr("only in the file (LoadOptions::allow_unexpected ignores them): w"));
  auto const loaded =
      checkpoint::load(this->path_, tensors, {.allow_unexpected = true, .rename = average});
  EXPECT_THAT(loaded.tensors, ElementsAre("w", "v"));
  EXPECT_THAT(loaded.unexpected, ElementsAre("w"));
  EXPECT_THAT(to_host(w), Each(1.0F));
  EXPECT_THAT(to_host(v), Each(3.0F));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                checkpoint::load(
                    this->path_, tensors, {.rename = [](auto const& name) { return "x/" + name; }});
              }),
              HasSubstr("missing in the file: x/w, x/v"));
  // A pattern selects by the names of the list.
  checkpoint::load(
      this->path_, tensors, {.only = {"v"}, .allow_unexpected = true, .rename = average});
}

TYPED_TEST(ServedCheckpoint, matrices_come_back_from_their_transpose) {
  for (auto const& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{2, 3}, {1, 5}, {7, 1}, {0, 4}, {33, 65}}) {
    std::vector<float> elements(static_cast<std::size_t>(rows * columns));
    std::iota(elements.begin(), elements.end(), 0.0F);
    std::vector<float> transposed(elements.size());
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < columns; ++k) {
        transposed[static_cast<std::size_t>(k * rows + i)] =
            elements[static_cast<std::size_t>(i * columns + k)];
      }
    }
    checkpoint::save(this->path_,
                     Tensors()
                         .add("fc.weight", to_device(this->device_, transposed, {columns, rows}))
                         .add("fc.bias", this->full({columns}, 7.0F)));
    auto const weight = this->full({rows, columns}, -1.0F);
    auto const bias = this->full({columns}, -1.0F);
    Tensors const tensors = Tensors().add("fc/weight", weight).add("fc/bias", bias);
    checkpoint::LoadOptions options;
    options.rename = [](std::string name) {
      name[2] = '.';
      return name;
    };
    options.transposed = {"*/weight"};
    checkpoint::load(this->path_, tensors, options);
    EXPECT_EQ(to_host(weight), elements);
    EXPECT_THAT(to_host(bias), Each(7.0F));
    options.transposed = {"*/weight", "*/bias", "nothing"};
    EXPECT_THAT(
        message_of<std::invalid_argument>([&] { checkpoint::load(this->path_, tensors, options); }),
        AllOf(HasSubstr("fc/bias ("), HasSubstr("is no matrix"), HasSubstr("nothing")));
  }
}

TYPED_TEST(ServedCheckpoint, frozen_tensors_are_loaded_and_stay_frozen) {
  auto served = this->constant_store(1.0F);
  checkpoint::save(this->path_, Tensors(this->constant_store(3.0F)));
  served.freeze("*");
  auto const w = served.find("w");
  auto const doubled = this->full({2, 1}, 0.0F);
  auto const step = [&] { copy(doubled, ops::scale(w, 2.0F)); };
  step();
  if constexpr (CapturingRuntime<TypeParam>) {
    CapturedStep<TypeParam> captured(this->device_, step);
    captured.replay();
    checkpoint::load(this->path_, Tensors(served));
    captured.replay();
    EXPECT_THAT(to_host(doubled), Each(6.0F));
  } else {
    checkpoint::load(this->path_, Tensors(served));
  }
  EXPECT_TRUE(w.immutable());
  EXPECT_THAT(to_host(w), Each(3.0F));
  EXPECT_THROW(copy(w, this->full({2, 1}, 0.0F)), std::logic_error);
}

}  // namespace
}  // namespace msstream::testing
