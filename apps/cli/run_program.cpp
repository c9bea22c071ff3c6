// SPDX-License-Identifier: Apache-2.0
#include "cli/at_end.hpp"
#include "cli/failure_text.hpp"
#include "cli/options.hpp"
#include "cli/outputs.hpp"
#include "cli/process_setup.hpp"

#include <msstream/base/detail/env.hpp>

#include <fmt/core.h>

#include <exception>
#include <iostream>
#include <stdexcept>

namespace msstream::cli {

int run_program(int argc,
                char const* const* argv,
                std::function<void(Arguments const&)> const& body) {
  prepare_process();
  Arguments const arguments = Arguments::of_process(argc, argv);
  auto const report = [&](std::string_view message) {
    std::cerr << fmt::format("{}: error: {}\n", arguments.program, message);
  };
  auto const report_usage = [&](std::string_view message, std::string_view program) {
    report(message);
    std::cerr << fmt::format("Try '{} --help'.\n", program);
  };
  int status = 0;
  std::exception_ptr failed;
  try {
    body(arguments);
  } catch (HelpRequested const& help) {
    print(help.what());
  } catch (UsageError const& error) {
    report_usage(error.what(), error.program().empty() ? arguments.program : error.program());
    failed = std::current_exception();
    status = 2;
  } catch (env::BadValue const& error) {
    report_usage(error.what(), arguments.program);
    failed = std::current_exception();
    status = 2;
  } catch (...) {
    failed = std::current_exception();
    report(failure_text(failed));
    status = 1;
  }
  print("");  // checks the output of other code to the standard output, too
  for (auto const& failure : take_output_failures()) {
    report(failure);
    status = status == 0 ? 1 : status;
    failed = failed != nullptr ? failed : std::make_exception_ptr(std::runtime_error(failure));
  }
  end_with(failed);
  return status;
}

}  // namespace msstream::cli
