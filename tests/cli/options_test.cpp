// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"

#include "base/message_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

namespace msstream::cli {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;

enum class Colour { red, blue };

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() {
    options_.group("Training");
    options_.add("--epochs", epochs_, "passes over the rows", {1, 100});
    options_.add("--learning-rate", rate_, "step length", {0.0});
    options_.add("--layers", layers_, "widths", {1});
    options_.group("Output");
    options_.add("--save", save_, "where to", "a path");
    options_.add_choice<Colour>(
        "--colour", colour_, {{"red", Colour::red}, {"blue", Colour::blue}}, "of the bar");
    options_.add_optional<int>("--port", port_, 7, "of the page", {0, 99});
    options_.add_flag("--quiet", quiet_, "no progress");
  }

  void parse(std::vector<std::string> const& values, Environment const& environment = {}) {
    options_.parse({"train", values, environment}, warnings_);
  }
  std::string failure(std::vector<std::string> const& values, Environment const& environment = {}) {
    return message_of<UsageError>([&] { parse(values, environment); });
  }

  std::int64_t epochs_ = 3;
  double rate_ = 0.001;
  std::vector<int> layers_{256, 128};
  std::string save_;
  Colour colour_ = Colour::red;
  std::optional<int> port_;
  bool quiet_ = false;
  std::ostringstream warnings_;
  Options options_{"Trains a model.", {{"train --epochs 1", "one pass"}}};
};

TEST_F(OptionsTest, defaults_stay_until_something_is_given) {
  parse({});
  EXPECT_EQ(epochs_, 3);
  EXPECT_THAT(layers_, ElementsAre(256, 128));
  EXPECT_FALSE(quiet_);
}

TEST_F(OptionsTest, arguments_without_an_option_are_kept_in_order) {
  std::vector<std::string> files;
  options_.add_arguments("FILE", files, "what to read");
  parse({"a", "--epochs", "7", "b", "--", "--c"});
  EXPECT_THAT(files, ElementsAre("a", "b", "--c"));
  EXPECT_EQ(epochs_, 7);
  EXPECT_THAT(failure({"a", "--epoch", "7"}), HasSubstr("did you mean --epochs?"));
}

TEST_F(OptionsTest, the_command_line_sets_every_kind) {
  parse({"--epochs",
         "7",
         "--learning-rate=0.5",
         "--layers",
         "8,4,2",
         "--save",
         "a b",
         "--colour",
         "blue",
         "--quiet"});
  EXPECT_EQ(epochs_, 7);
  EXPECT_EQ(rate_, 0.5);
  EXPECT_THAT(layers_, ElementsAre(8, 4, 2));
  EXPECT_EQ(save_, "a b");
  EXPECT_EQ(colour_, Colour::blue);
  EXPECT_TRUE(quiet_);
}

TEST_F(OptionsTest, a_path_that_was_forgotten_does_not_take_the_next_option) {
  EXPECT_THAT(failure({"--save", "--quiet"}), AllOf(HasSubstr("--save"), HasSubstr("a path")));
}

TEST_F(OptionsTest, a_value_may_be_left_out_where_the_option_says_so) {
  parse({"--epochs", "1"});
  EXPECT_EQ(port_, std::nullopt);
  for (std::vector<std::string> const& words : {std::vector<std::string>{"--port"},
                                                {"--port", "--quiet"},
                                                {"--port", "--epochs", "2"},
                                                {"--epochs", "2", "--port"}}) {
    port_.reset();
    parse(words);
    EXPECT_EQ(port_, 7);
  }
  parse({"--port", "0", "--quiet"});
  EXPECT_EQ(port_, 0);
  parse({"--port=12"});
  EXPECT_EQ(port_, 12);
  parse({}, {{"MSSTREAM_PORT", "34"}});
  EXPECT_EQ(port_, 34);
  EXPECT_EQ(failure({"--port", "100"}), "--port: expected an integer from 0 to 99, found '100'");
  EXPECT_EQ(failure({"--port", "x"}), "--port: expected an integer from 0 to 99, found 'x'");
}

TEST_F(OptionsTest, so_does_the_environment) {
  parse({},
        {{"MSSTREAM_EPOCHS", "7"},
         {"MSSTREAM_LEARNING_RATE", "0.5"},
         {"MSSTREAM_LAYERS", "8"},
         {"MSSTREAM_SAVE", "x"},
         {"MSSTREAM_COLOUR", "blue"},
         {"MSSTREAM_QUIET", "yes"}});
  EXPECT_EQ(epochs_, 7);
  EXPECT_EQ(rate_, 0.5);
  EXPECT_THAT(layers_, ElementsAre(8));
  EXPECT_EQ(save_, "x");
  EXPECT_EQ(colour_, Colour::blue);
  EXPECT_TRUE(quiet_);
  EXPECT_THAT(warnings_.str(), IsEmpty());
}

TEST_F(OptionsTest, the_command_line_wins_over_the_environment) {
  parse({"--epochs", "7", "--quiet=false"}, {{"MSSTREAM_EPOCHS", "8"}, {"MSSTREAM_QUIET", "1"}});
  EXPECT_EQ(epochs_, 7);
  EXPECT_FALSE(quiet_);
}

TEST_F(OptionsTest, of_an_option_given_twice_the_last_counts) {
  parse({"--epochs", "7", "--epochs", "9"});
  EXPECT_EQ(epochs_, 9);
}

TEST_F(OptionsTest, an_empty_variable_counts_as_not_set) {
  parse({}, {{"MSSTREAM_EPOCHS", ""}});
  EXPECT_EQ(epochs_, 3);
}

TEST_F(OptionsTest, a_bad_value_names_its_option_or_variable) {
  EXPECT_EQ(failure({"--epochs", "abc"}),
            "--epochs: expected an integer from 1 to 100, found 'abc'");
  EXPECT_EQ(failure({}, {{"MSSTREAM_EPOCHS", "0"}}),
            "MSSTREAM_EPOCHS: expected an integer from 1 to 100, found '0'");
  EXPECT_EQ(failure({"--colour", "green"}), "--colour: expected one of red, blue, found 'green'");
  EXPECT_EQ(failure({"--learning-rate", "-1"}),
            "--learning-rate: expected a number of at least 0, found '-1'");
  EXPECT_EQ(failure({"--layers", "8,,2"}),
            "--layers: expected one or more integers of at least 1 apart by commas, found '8,,2'");
  EXPECT_EQ(failure({"--save", ""}), "--save: expected a path, found ''");
  EXPECT_THAT(failure({}, {{"MSSTREAM_QUIET", "maybe"}}),
              HasSubstr("MSSTREAM_QUIET: expected true or false"));
}

TEST_F(OptionsTest, numbers_must_be_whole_finite_and_in_range) {
  for (auto const* value : {"1.5", "7x", " 7", "", "101", "99999999999999999999"}) {
    EXPECT_THAT(failure({"--epochs", value}), HasSubstr("--epochs: expected an integer")) << value;
  }
  for (auto const* value : {"nan", "inf", "1e999", "0x1"}) {
    EXPECT_THAT(failure({"--learning-rate", value}),
                HasSubstr("--learning-rate: expected a number"))
        << value;
  }
}

TEST_F(OptionsTest, an_unknown_option_is_an_error_with_the_nearest_name) {
  EXPECT_EQ(failure({"--epoch", "3"}), "unknown argument '--epoch'; did you mean --epochs?");
  EXPECT_EQ(failure({"data.csv"}), "unknown argument 'data.csv'");
}

TEST_F(OptionsTest, a_missing_value_is_an_error) {
  EXPECT_EQ(failure({"--epochs"}), "--epochs: expected an integer from 1 to 100, found nothing");
}

TEST_F(OptionsTest, a_required_option_may_come_from_either) {
  options_.require_option("--save");
  EXPECT_EQ(failure({}), "--save is required: expected a path (or set MSSTREAM_SAVE)");
  parse({}, {{"MSSTREAM_SAVE", "x"}});
  EXPECT_EQ(save_, "x");
  EXPECT_THROW(options_.require_option("--none"), std::invalid_argument);
}

TEST_F(OptionsTest, an_option_of_the_command_line_alone_has_no_variable) {
  bool shows_version = false;
  options_.add_flag("--version", shows_version, "print the version, and end");
  options_.only_on_command_line("--version");
  options_.only_on_command_line("--save");
  // A value that the option would refuse.
  parse({}, {{"MSSTREAM_VERSION", "0.1.0"}, {"MSSTREAM_SAVE", "x"}});
  EXPECT_FALSE(shows_version);
  EXPECT_EQ(save_, "");
  EXPECT_EQ(warnings_.str(),
            "train: warning: unknown variable MSSTREAM_SAVE\n"
            "train: warning: unknown variable MSSTREAM_VERSION\n");
  parse({}, {{"MSSTREAM_VERSION", "1"}});
  EXPECT_FALSE(shows_version);
  parse({"--version", "--save", "x"});
  EXPECT_TRUE(shows_version);
  EXPECT_EQ(save_, "x");
  auto const help = message_of<HelpRequested>([&] { parse({"--help"}); });
  EXPECT_THAT(help, HasSubstr("default false]"));
  EXPECT_THAT(help, Not(HasSubstr("MSSTREAM_VERSION")));
  EXPECT_THAT(help, HasSubstr("MSSTREAM_QUIET]"));
  options_.require_option("--save");
  EXPECT_EQ(failure({}), "--save is required: expected a path");
  EXPECT_THROW(options_.only_on_command_line("--none"), std::invalid_argument);
}

TEST_F(OptionsTest, an_unknown_variable_is_a_warning_with_the_nearest_name) {
  options_.know_variables({"MSSTREAM_TEST_DATA"});
  parse({}, {{"MSSTREAM_EPOCH", "5"}, {"MSSTREAM_XYZ", "5"}, {"MSSTREAM_TEST_DATA", "/"}});
  EXPECT_EQ(warnings_.str(),
            "train: warning: unknown variable MSSTREAM_EPOCH; did you mean MSSTREAM_EPOCHS?\n"
            "train: warning: unknown variable MSSTREAM_XYZ\n");
  EXPECT_EQ(epochs_, 3);
}

TEST_F(OptionsTest, variables_of_other_programs_are_no_warning_unless_they_resemble_an_option) {
  options_.allow_variables_of_others();
  parse({}, {{"MSSTREAM_EPOCH", "5"}, {"MSSTREAM_XYZ", "5"}});
  EXPECT_EQ(warnings_.str(),
            "train: warning: unknown variable MSSTREAM_EPOCH; did you mean MSSTREAM_EPOCHS?\n");
}

TEST_F(OptionsTest, help_teaches) {
  auto const help = message_of<HelpRequested>([&] { parse({"--help"}); });
  for (auto const* part : {"Trains a model.",
                           "Training:",
                           "Output:",
                           "--epochs",
                           "passes over the rows",
                           "an integer from 1 to 100; default 3; MSSTREAM_EPOCHS",
                           "default 256,128",
                           "a path; default none; MSSTREAM_SAVE",
                           "one of red, blue; default red",
                           "train --epochs 1\n      one pass"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  EXPECT_LT(help.find("Training:"), help.find("Output:"));
  EXPECT_LT(help.find("Output:"), help.find("Examples:"));
}

TEST(NearestName, gives_up_on_names_that_are_far) {
  EXPECT_EQ(nearest_name("kitten", {"sitten", "mitt"}), "sitten");
  EXPECT_EQ(nearest_name("kitten", {"dog"}), "");
  EXPECT_EQ(nearest_name("kitten", {}), "");
}

/// Returns the exit status of run_program() with `body`, and the text that it wrote to standard
/// error.
std::pair<int, std::string> outcome(std::function<void(Arguments const&)> const& body) {
  char const* argv[] = {"/usr/bin/train", "--x"};
  ::testing::internal::CaptureStderr();
  int const status = run_program(2, argv, body);
  return {status, ::testing::internal::GetCapturedStderr()};
}

TEST(RunProgram, turns_how_it_ended_into_a_status) {
  EXPECT_EQ(outcome([](Arguments const&) {}), std::pair(0, std::string()));
  EXPECT_EQ(outcome([](Arguments const&) { throw UsageError("bad"); }),
            std::pair(2, std::string("train: error: bad\nTry 'train --help'.\n")));
  EXPECT_EQ(outcome([](Arguments const&) { throw std::runtime_error("broke"); }),
            std::pair(1, std::string("train: error: broke\n")));
  EXPECT_EQ(outcome([](Arguments const&) { throw 3; }).first, 1);
}

TEST(RunProgram, help_goes_to_standard_output) {
  ::testing::internal::CaptureStdout();
  auto const [status, errors] = outcome([](Arguments const&) { throw HelpRequested("usage\n"); });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "usage\n");
  EXPECT_EQ(status, 0);
  EXPECT_EQ(errors, "");
}

TEST(RunProgram, hands_over_the_arguments_and_the_variables_of_the_prefix) {
  ::setenv("MSSTREAM_OPTIONS_TEST", "a=b", 1);
  EXPECT_EQ(outcome([](Arguments const& arguments) {
              EXPECT_EQ(arguments.program, "train");
              EXPECT_THAT(arguments.values, ElementsAre("--x"));
              EXPECT_EQ(arguments.environment.at("MSSTREAM_OPTIONS_TEST"), "a=b");
              EXPECT_EQ(arguments.environment.count("PATH"), 0U);
            }).first,
            0);
  ::unsetenv("MSSTREAM_OPTIONS_TEST");
}

}  // namespace
}  // namespace msstream::cli
