// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/serve_program.hpp"

namespace msstream::testing {

class ServeWdl : public ServeProgramTest {
 protected:
  ServeWdl() : ServeProgramTest(MSSTREAM_SERVE_WDL) {}

  [[nodiscard]] static Words asking() {
    return {"--runtime",
            runtime(),
            "--batch",
            "4",
            "--queries",
            "7",
            "--seconds",
            "0.05",
            "--replicas",
            "2",
            "--warmup",
            "0.01",
            "--quiet"};
  }
  [[nodiscard]] static Words small() {
    return asking() + Words{"--fields",
                            "3",
                            "--hotness",
                            "2",
                            "--table-rows",
                            "50",
                            "--embedding-dim",
                            "4",
                            "--continuous",
                            "3",
                            "--layers",
                            "8,4"};
  }
  /// Runs load tests, each four times as long as the one before, and returns the first report whose
  /// result is enough: a busy machine may do little in a short test.
  template <class IsEnough>
  [[nodiscard]] nlohmann::json report_when(Words const& arguments,
                                           std::string const& needed,
                                           IsEnough&& is_enough) {
    nlohmann::json report;
    for (auto const* const seconds : {"0.05", "0.2", "0.8", "3.2", "13", "51"}) {
      report = report_of(arguments + Words{"--seconds", seconds});
      if (report.is_null() || is_enough(report["result"])) {
        return report;
      }
    }
    ADD_FAILURE() << "not once " << needed << ": " << report["result"];
    return report;
  }
};

}  // namespace msstream::testing
