// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/text.hpp>
#include <msstream/support/options.hpp>

#include <iostream>

namespace msstream::support {

int run_program(int argc,
                char const* const* argv,
                std::function<void(Arguments const&)> const& body) {
  Arguments const arguments = Arguments::of_process(argc, argv);
  auto const report = [&](std::string_view message) {
    std::cerr << text(arguments.program, ": error: ", message, "\n");
  };
  try {
    body(arguments);
    return 0;
  } catch (HelpRequested const& help) {
    std::cout << help.what() << std::flush;
    return 0;
  } catch (UsageError const& error) {
    report(error.what());
    std::cerr << text("Try '", arguments.program, " --help'.\n");
    return 2;
  } catch (std::exception const& error) {
    report(error.what());
  } catch (...) {
    report("an exception of unknown type");
  }
  return 1;
}

}  // namespace msstream::support
