// SPDX-License-Identifier: Apache-2.0
#include "train_wdl/program.hpp"

#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/data/batch.hpp>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainWdlResume : public TrainWdlTest {
 protected:
  /// Returns the program options of small() with `count` steps, and the options `more`. If an
  /// option is given twice, the last value counts.
  [[nodiscard]] static Words steps(int count, Words const& more = {}) {
    return small() + Words{"--steps", std::to_string(count)} + more;
  }
  [[nodiscard]] std::string model_after(int count, std::string_view name, Words const& more = {}) {
    EXPECT_EQ(train_wdl(steps(count, more + Words{"--save", path(name)})).status, 0);
    return path(name);
  }
};

TEST_P(TrainWdlResume, goes_on_with_the_same_bits_in_the_middle_of_an_epoch) {
  for (std::string const optimizer : {"adam", "adagrad", "sgd"}) {
    Words const rule = {"--optimizer", optimizer};
    auto const whole = report_of(steps(12, rule + Words{"--save", path("whole")}));
    auto const first = report_of(steps(6, rule + Words{"--save", path("half")}));
    auto const second = report_of(steps(12,
                                        rule + Words{"--resume",
                                                     path("half"),
                                                     "--save",
                                                     path("second"),
                                                     "--stream-groups",
                                                     "7",
                                                     "--launch-threads",
                                                     "per_group"}));
    EXPECT_EQ(first["first_step"], 0);
    EXPECT_EQ(second["first_step"], 6);
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    EXPECT_EQ(joined, whole["losses"]) << optimizer;
    EXPECT_EQ(second["epochs"].back()["test_auc"], whole["epochs"].back()["test_auc"]);
    EXPECT_TRUE(read_all(path("second")) == read_all(path("whole")))
        << optimizer << ": the saved models differ";
  }
}

TEST_P(TrainWdlResume, at_the_last_step_changes_nothing) {
  auto const model = model_after(6, "model");
  auto const report = report_of(steps(6, {"--resume", model, "--save", path("again")}));
  EXPECT_TRUE(report["losses"].empty());
  EXPECT_TRUE(report["epochs"].empty());
  EXPECT_TRUE(read_all(path("again")) == read_all(model));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlResume, kRuntimes, name_of_runtime);

class TrainWdlModelFile : public TrainWdlResume {};

TEST_F(TrainWdlModelFile, of_another_run_is_refused_by_what_differs) {
  auto const model = model_after(6, "model");
  std::vector<std::pair<Words, std::string>> const others = {
      {{"--batch", "250"}, "was trained with batch = 500, this run has 250"},
      {{"--seed", "2"}, "was trained with seed = 1, this run has 2"},
      {{"--holdout", "4"}, "was trained with holdout = 5, this run has 4"},
      {{"--optimizer", "sgd"}, "was trained with optimizer = adam, this run has sgd"},
      {{"--embedding-dim", "8"}, "was trained with embedding_dim = 4, this run has 8"},
      {{"--layers", "16"}, "was trained with layers = 16,8, this run has 16"},
      {{"--rows", "2000"}, "was trained with rows = 3000, this run has 2000"},
      {{"--buckets", "32"}, "[64, 4]"},
      {{"--steps", "5"}, "is at step 6, beyond the 5 that this run is for"},
  };
  for (auto const& [other, message] : others) {
    auto const ended = train_wdl(steps(12, Words{"--resume", model} + other));
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("train_wdl: error: " + model), HasSubstr(message)));
  }
}

TEST_F(TrainWdlModelFile, of_an_older_format_is_refused_by_its_name) {
  auto bytes = read_all(model_after(2, "model"));
  std::string const format = "msstream train_wdl 3";
  auto const place = bytes.find(format);
  ASSERT_NE(place, std::string::npos);
  bytes[place + format.size() - 1] = '1';
  auto const old = folder.write("old", bytes).string();
  auto const ended = train_wdl(steps(4, {"--resume", old}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(
      ended.err,
      HasSubstr("train_wdl: error: " + old +
                ": has the format 'msstream train_wdl 1'; expected 'msstream train_wdl 3'"));
}

TEST_F(TrainWdlModelFile, has_the_position_in_the_data_and_the_transforms) {
  auto const model = model_after(6, "model");
  checkpoint::SafetensorsFile const file(model);
  auto const position = data::LoaderPosition::parse(file.metadata().at("position"));
  EXPECT_EQ(position.batches, 6);
  EXPECT_EQ(position.epoch, 1);
  EXPECT_EQ(position.batch, 1);
  EXPECT_TRUE(file.tensors().contains("transforms/columns"));
}

TEST_F(TrainWdlModelFile, that_cannot_be_read_is_refused_by_name) {
  auto const whole = read_all(model_after(2, "model"));
  auto const refused = [&](std::string const& file, std::string const& message) {
    auto const ended = train_wdl(steps(4, {"--resume", file}));
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("train_wdl: error: " + file), HasSubstr(message)));
  };
  refused(path("missing"), "No such file");
  refused(folder.write("text", "not a model").string(), "");
  refused(folder.write("empty", "").string(), "");
  refused(folder.write("cut", whole.substr(0, whole.size() - 1)).string(), "");
  refused(folder.path().string(), "");
  // Writes a safetensors file that is no model of the program.
  std::string const header = R"({"__metadata__":{"step":"1"}})";
  refused(
      folder
          .write("other",
                 std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header)
          .string(),
      "not a model of train_wdl");
}

TEST_F(TrainWdlModelFile, stays_whole_when_a_later_save_fails) {
  auto const model = model_after(2, "model");
  auto const before = read_all(model);
  auto const ended = train_wdl(steps(4, {"--save", model}), {.most_file_bytes = before.size() / 2});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("train_wdl: error: "), HasSubstr("File too large")));
  EXPECT_TRUE(read_all(model) == before);
  EXPECT_THAT(folder.names(), ElementsAre("model"));
}

TEST_F(TrainWdlModelFile, stays_whole_when_the_run_is_killed_in_the_middle_of_a_save) {
  auto const model = model_after(2, "model");
  auto const before = read_all(model);
  auto const ended = train_wdl(steps(4, {"--save", model}),
                               {.most_file_bytes = before.size() / 2, .killed_at_limit = true});
  EXPECT_EQ(ended.signal, SIGXFSZ);
  EXPECT_TRUE(read_all(model) == before);
  EXPECT_EQ(train_wdl(steps(4, {"--resume", model, "--save", model})).status, 0);
  EXPECT_THAT(folder.names(), ElementsAre("model")) << "what was left has been removed";
}

}  // namespace
}  // namespace msstream::testing
