// SPDX-License-Identifier: Apache-2.0
#include "train_dlrm/click_rows.hpp"
#include "training/rows_ahead.hpp"
#include "training/step_program.hpp"
#include "training/table_plans.hpp"

#include <msstream/checkpoint/safetensors.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::PrintToString;
using ::testing::StartsWith;

/// On the host runtime, where any machine has as many ranks as it is asked for.
class TrainDlrmTablesInParts : public StepProgramTest {
 protected:
  TrainDlrmTablesInParts() : StepProgramTest(MSSTREAM_TRAIN_DLRM) {}

  /// Returns options for 96 training rows, in eight steps of 12 rows per epoch, whose losses move
  /// by far more than roundings.
  [[nodiscard]] static Words small() {
    return {"--rows",  "120", "--max-rows",   "50",   "--max-hotness", "3",
            "--batch", "12",  "--lr",         "0.05", "--epochs",      "2",
            "--steps", "10",  "--dimension",  "4",    "--bottom",      "8",
            "--top",   "8,1", "--cross-rank", "4",    "--quiet",       "--runtime",
            "host"};
  }
  /// Returns options for clicks in a file.
  [[nodiscard]] Words on_file(std::vector<ClickRow> const& rows) const {
    write_tsv(path("clicks.tsv"), rows);
    return on_clicks(path("clicks.tsv")) +
           Words{"--batch", "12", "--lr", "0.05", "--steps", "10", "--runtime", "host"};
  }
  /// Returns options for tables in parts by a plan that has all shardings in turn. The default rule
  /// has one number a row, and goes with all shardings but column_wise.
  [[nodiscard]] Words in_parts(Words const& training, int ranks, bool with_columns = false) {
    auto const count = std::to_string(ranks);
    auto const file = path((with_columns ? "columns" : "plan") + count);
    auto const options = training +
                         Words{"--ranks", count, "--parallel", "sharded", "--plan", file} +
                         (with_columns ? Words{"--optimizer", "adam"} : Words{});
    if (!std::filesystem::exists(file)) {
      auto const made = run_program(MSSTREAM_TRAIN_DLRM, options + Words{"--steps", "1"});
      EXPECT_EQ(made.status, 0) << made.err;
      use_all_shardings(file, ranks, with_columns ? "-" : "table/");
    }
    return options;
  }
  /// Expects the results of ten steps to be others, but for roundings, which `precision` bounds.
  static void expect_equal_learning(nlohmann::json const& found,
                                    nlohmann::json const& expected,
                                    std::string const& what,
                                    double precision = 1e-5) {
    ASSERT_EQ(found[0].size(), 10U) << what;
    EXPECT_NE(found[0].front(), found[0].back()) << "nothing moves";
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_NEAR(found[0][i].get<double>(), expected[0][i].get<double>(), precision)
          << what << ", step " << i;
    }
    ASSERT_EQ(found.size(), 3U) << what;
    for (std::size_t epoch = 1; epoch < 3; ++epoch) {
      for (auto const* const metric : {"test_auc", "test_log_loss"}) {
        // Two of the 24 rows of the test may change their order.
        EXPECT_NEAR(found[epoch][metric].get<double>(), expected[epoch][metric].get<double>(), 0.02)
            << what << ", epoch " << epoch;
      }
    }
  }
  [[nodiscard]] static std::vector<std::byte> bytes_of(checkpoint::SafetensorsFile const& file,
                                                       std::string const& name) {
    auto const& tensor = file.tensor(name);
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes));
    file.read(tensor, 0, bytes);
    return bytes;
  }
  /// Expects each way of looking ahead and of issuing a step to have the bits of none.
  void expect_bits_of_no_lookahead(Words const& parts) {
    auto const expected = results_of(parts);
    for (auto const& way : {Words{"--capture"},
                            Words{"--lookahead", "ids", "--stream-groups", "7"},
                            Words{"--lookahead", "ids", "--stream-groups", "1", "--capture"},
                            Words{"--lookahead", "rows", "--stream-groups", "1"},
                            Words{"--lookahead", "rows", "--capture"}}) {
      EXPECT_EQ(results_of(parts + way), expected) << PrintToString(parts + way);
    }
  }
};

TEST_F(TrainDlrmTablesInParts, learn_what_whole_tables_learn) {
  for (bool const with_columns : {false, true}) {
    auto const model = small() + (with_columns ? Words{"--optimizer", "adam"} : Words{});
    auto const whole = results_of(model);
    // One rank that has all tables adds in the order of a model that has them.
    EXPECT_EQ(results_of(in_parts(small(), 1, with_columns)), whole);
    for (int const ranks : {2, 3}) {
      expect_equal_learning(results_of(in_parts(small(), ranks, with_columns)),
                            whole,
                            std::to_string(ranks) + " ranks");
    }
  }
}

TEST_F(TrainDlrmTablesInParts, learn_what_whole_tables_learn_in_half_precision) {
  for (auto const& [precision, tables] :
       {std::pair<std::string, Words>{"bf16", {}},
        {"bf16", {"--half-tables"}},
        {"bf16", {"--half-tables", "--table-rounding", "stochastic"}},
        {"fp16", {}},
        {"fp16", {"--half-tables"}}}) {
    auto const model = small() + Words{"--precision", precision, "--interaction", "dot"} + tables;
    auto const whole = results_of(model);
    auto const alone = in_parts(model, 1) + Words{"--lookahead", "rows"};
    EXPECT_EQ(results_of(alone), whole) << precision;
    EXPECT_EQ(results_of(alone + Words{"--capture"}), whole) << precision;
    if (precision == "bf16") {
      // A rounding of a sum may move a value of 8 bits to the next one.
      auto const found = results_of(in_parts(model, 2));
      expect_equal_learning(found, whole, "2 ranks", 5e-3);
      EXPECT_EQ(results_of(in_parts(model, 2) + Words{"--lookahead", "rows", "--capture"}), found);
    }
  }
}

TEST_F(TrainDlrmTablesInParts, of_one_rank_are_saved_as_whole_tables_are) {
  for (auto const& precision :
       {Words{}, Words{"--precision", "fp16"}, Words{"--precision", "bf16", "--half-tables"}}) {
    auto const model = small() + precision + Words{"--save"};
    // By the chosen plan, since the order of the tables is that of a sum: the norm of all
    // gradients, which the state of a step with a loss scale has.
    auto const parts = small() + precision + Words{"--parallel", "sharded", "--save"};
    EXPECT_EQ(run_program(MSSTREAM_TRAIN_DLRM, model + Words{path("whole")}).status, 0);
    EXPECT_EQ(run_program(MSSTREAM_TRAIN_DLRM, parts + Words{path("parts")}).status, 0);
    checkpoint::SafetensorsFile const whole(path("whole"));
    checkpoint::SafetensorsFile const found(path("parts"));
    EXPECT_EQ(found.metadata(), whole.metadata());
    ASSERT_EQ(found.tensors().size(), whole.tensors().size());
    for (auto const& [name, tensor] : whole.tensors()) {
      EXPECT_EQ(found.tensor(name).shape, tensor.shape) << name;
      EXPECT_TRUE(bytes_of(found, name) == bytes_of(whole, name))
          << PrintToString(precision) << name;
    }
  }
}

TEST_F(TrainDlrmTablesInParts, have_the_bits_of_no_lookahead_with_ids_and_rows_ahead) {
  expect_bits_of_no_lookahead(in_parts(small() + Words{"--interaction", "dot"}, 1));
  expect_bits_of_no_lookahead(in_parts(small(), 3, true));
}

TEST_F(TrainDlrmTablesInParts, of_words_of_a_file_learn_what_whole_tables_learn) {
  auto const words = on_file(click_rows(120, 1, 1));
  auto const whole = results_of(words);
  EXPECT_EQ(results_of(in_parts(words, 1) + Words{"--lookahead", "rows"}), whole);
  auto const parts = in_parts(words, 2);
  expect_equal_learning(results_of(parts), whole, "2 ranks");
  expect_bits_of_no_lookahead(parts);
}

TEST_F(TrainDlrmTablesInParts, of_lists_of_a_file_learn_what_whole_tables_learn) {
  auto rows = click_rows(120, 0, 4);
  for (auto& row : rows) {
    row.words[3].clear();  // a field without any id
  }
  auto const lists = on_file(rows) + Words{"--multi-hot", "--max-hotness", "3"};
  auto const whole = results_of(lists);
  EXPECT_EQ(results_of(in_parts(lists, 1) + Words{"--lookahead", "rows"}), whole);
  auto const parts = in_parts(lists, 3);
  expect_equal_learning(results_of(parts), whole, "3 ranks");
  expect_bits_of_no_lookahead(parts);
}

TEST_F(TrainDlrmTablesInParts, have_room_for_lists_that_are_all_as_long_as_can_be) {
  auto const lists = on_file(click_rows(120, 5, 5)) + Words{"--multi-hot"};
  expect_equal_learning(results_of(in_parts(lists, 2)), results_of(lists), "2 ranks");
}

TEST_F(TrainDlrmTablesInParts, learn_from_rows_that_are_a_step_stale) {
  auto const parts = in_parts(small(), 2);
  auto const exact = results_of(parts)[0];
  auto const stale = parts + Words{"--lookahead", "stale_rows"};
  auto const found = results_of(stale)[0];
  ASSERT_EQ(found.size(), 10U);
  EXPECT_EQ(results_of(stale + Words{"--capture"})[0], found);
  // The rows of the first step are no older than without lookahead, those of the second are.
  EXPECT_EQ(found[0], exact[0]);
  EXPECT_NE(found[1], exact[1]);
  for (std::size_t i = 1; i < 10; ++i) {
    EXPECT_NEAR(found[i].get<double>(), exact[i].get<double>(), 0.3) << "step " << i;
  }
}

TEST_F(TrainDlrmTablesInParts, send_rows_ahead_of_the_update_of_their_step) {
  for (std::string const lookahead : {"none", "ids", "rows", "stale_rows"}) {
    auto const ended = run_program(
        MSSTREAM_TRAIN_DLRM,
        in_parts(small(), 2) + Words{"--lookahead", lookahead, "--trace", path("timeline")});
    ASSERT_EQ(ended.status, 0) << ended.err;
    expect_rows_ahead(path("timeline"), lookahead);
  }
}

TEST_F(TrainDlrmTablesInParts, go_on_from_a_checkpoint_with_the_same_bits) {
  auto const parts = in_parts(small(), 2);
  auto const expected = report_of(parts + Words{"--save", path("whole")});
  auto const ahead = parts + Words{"--lookahead", "rows", "--capture"};
  // An epoch has eight steps. A run must not have read beyond its last batch.
  for (std::string const steps : {"3", "8"}) {
    auto const first = report_of(ahead + Words{"--steps", steps, "--save", path("first")});
    auto const second =
        report_of(ahead + Words{"--resume", path("first"), "--save", path("second")});
    EXPECT_EQ(second["first_step"], std::stoi(steps));
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    EXPECT_EQ(joined, expected["losses"]) << steps << " steps before";
    EXPECT_EQ(second["epochs"].back()["test_auc"], expected["epochs"].back()["test_auc"]);
    EXPECT_TRUE(read_all(path("second")) == read_all(path("whole"))) << steps;
  }
}

TEST_F(TrainDlrmTablesInParts, go_on_from_a_checkpoint_on_other_ranks_and_whole) {
  auto const expected = report_of(small())["losses"];
  auto const first = report_of(in_parts(small(), 3) + Words{"--steps", "4", "--save", path("3")});
  EXPECT_EQ(run_program(MSSTREAM_TRAIN_DLRM,
                        small() + Words{"--ranks", "2", "--steps", "4", "--save", path("whole")})
                .status,
            0);
  for (auto const& way : {in_parts(small(), 2) + Words{"--lookahead", "ids"},
                          in_parts(small(), 1),
                          small(),
                          small() + Words{"--ranks", "2"}}) {
    for (std::string const file : {"3", "whole"}) {
      auto const second = report_of(way + Words{"--resume", path(file)});
      auto joined = first["losses"];
      joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
      ASSERT_EQ(joined.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(joined[i].get<double>(), expected[i].get<double>(), 1e-5)
            << file << PrintToString(way) << ", step " << i;
      }
    }
  }
}

TEST_F(TrainDlrmTablesInParts, of_half_precision_go_on_on_other_ranks_and_whole) {
  auto const model = small() + Words{"--precision", "bf16", "--half-tables", "--optimizer", "sgd"};
  auto const expected = report_of(model)["losses"];
  auto const first = report_of(in_parts(model, 3) + Words{"--steps", "4", "--save", path("3")});
  for (auto const& way : {in_parts(model, 2) + Words{"--lookahead", "rows"}, model}) {
    auto const second = report_of(way + Words{"--resume", path("3")});
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    ASSERT_EQ(joined.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(joined[i].get<double>(), expected[i].get<double>(), 5e-3)
          << PrintToString(way) << ", step " << i;
    }
  }
  auto const other = run_program(MSSTREAM_TRAIN_DLRM, small() + Words{"--resume", path("3")});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, ::testing::HasSubstr("was trained with"));
}

TEST_F(TrainDlrmTablesInParts, of_a_float16_model_go_on_with_the_loss_scale) {
  auto const parts = in_parts(small() + Words{"--precision", "fp16"}, 1);
  auto const expected = report_of(parts + Words{"--save", path("whole")});
  auto const first = report_of(parts + Words{"--steps", "4", "--save", path("first")});
  auto const second = report_of(
      parts + Words{"--lookahead", "rows", "--resume", path("first"), "--save", path("second")});
  auto joined = first["losses"];
  joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
  EXPECT_EQ(joined, expected["losses"]);
  EXPECT_TRUE(read_all(path("second")) == read_all(path("whole")));
}

TEST_F(TrainDlrmTablesInParts, of_processes_have_the_bits_of_threads) {
  auto const options = in_parts(small(), 2) + Words{"--lookahead", "rows", "--capture"};
  auto const expected = report_of(options + Words{"--save", path("threads")});
  auto const ended =
      run_program(MSSTREAM_AS_PROCESSES,
                  Words{"2", MSSTREAM_TRAIN_DLRM} + options +
                      Words{"--quiet=false", "--report", path("report"), "--save", path("of_two")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("report")))["losses"], expected["losses"]);
  EXPECT_TRUE(read_all(path("of_two")) == read_all(path("threads")));
  auto const line = ended.err.find("row_wise");
  ASSERT_NE(line, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("table/0 ", line), std::string::npos) << "another rank prints, too";
  auto const resumed = run_program(
      MSSTREAM_AS_PROCESSES,
      Words{"2", MSSTREAM_TRAIN_DLRM} + options +
          Words{"--steps", "12", "--resume", path("of_two"), "--report", path("report")});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("report")))["losses"].size(), 2U);
}

TEST_F(TrainDlrmTablesInParts, take_the_options_of_one_rank) {
  auto const lists = on_file(click_rows(120, 0, 3)) + Words{"--multi-hot"};
  for (auto const& model : {small(), lists}) {
    auto const one = in_parts(model, 1) + Words{"--lookahead", "rows"};
    auto const way = Words{"--capture", "--assignment", "auto", "--waits"};
    EXPECT_EQ(results_of(one + way), results_of(one));
  }
}

TEST_F(TrainDlrmTablesInParts, are_planned_by_bytes_rows_and_hotness) {
  auto const plan_of = [](Words const& more) {
    auto const ended =
        run_program(MSSTREAM_TRAIN_DLRM,
                    small() + Words{"--quiet=false", "--max-rows", "3000", "--max-hotness", "100"} +
                        Words{"--dimension", "96", "--batch", "3", "--steps", "2", "--ranks", "3"} +
                        Words{"--parallel", "sharded"} + more);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.err;
  };
  // A row has 96 floats, and the one number of row-wise Adagrad or two numbers a float of Adam.
  auto const plan = plan_of({});
  EXPECT_THAT(plan, ContainsRegex("table/0 +3000 +96 +3 +table_wise +1164000 "));
  EXPECT_THAT(plan, ContainsRegex("table/15 +155 +96 +5 +replicated "));
  // 100 of the 214 ids of a row are more than a rank's share.
  EXPECT_THAT(plan, ContainsRegex("table/20 +3000 +96 +100 +row_wise +1164000 "));
  EXPECT_THAT(plan_of({"--optimizer", "adam"}),
              ContainsRegex("table/20 +3000 +96 +100 +column_wise +3456000 "));
}

TEST_F(TrainDlrmTablesInParts, that_cannot_be_are_refused) {
  expect_usage_error({"--plan", path("none")},
                     "--plan: goes with --parallel sharded, found --parallel data");
  expect_usage_error(
      {"--lookahead", "ids", "--parallel", "half_batches"},
      "--lookahead ids: goes with --parallel sharded, found --parallel half_batches");
  expect_usage_error({"--parallel", "sharded", "--reproducible", "any_rank_count"},
                     "--parallel sharded: does not go with --reproducible any_rank_count");
  auto const of_three =
      run_program(MSSTREAM_TRAIN_DLRM, in_parts(small(), 2) + Words{"--ranks", "3"});
  EXPECT_EQ(of_three.status, 1);
  EXPECT_THAT(of_three.err,
              StartsWith("train_dlrm: error: --plan " + path("plan2") +
                         ": a plan for 2 ranks; this run has 3"));
  (void)in_parts(small(), 2, true);
  auto const by_columns =
      run_program(MSSTREAM_TRAIN_DLRM, in_parts(small(), 2) + Words{"--plan", path("columns2")});
  EXPECT_EQ(by_columns.status, 1);
  EXPECT_THAT(by_columns.err,
              StartsWith("train_dlrm: error: --plan " + path("columns2") +
                         ": table 'table/3': column_wise, with one number a row by the update rule "
                         "rowwise_adagrad; expected row_wise, table_wise or replicated"));
}

}  // namespace
}  // namespace msstream::testing
