#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

#include "lib/run.hpp"

namespace {

// Prints the seed at the start, for a run that is killed, and after each failed test the command
// that repeats it.
class SeedListener : public doctest::IReporter {
 public:
  explicit SeedListener(const doctest::ContextOptions& options) : out_(*options.cout) {}

  void test_run_start() override { out_ << "OSM_TEST_SEED=" << osm::testing::seed() << std::endl; }
  void test_case_start(const doctest::TestCaseData& test) override { test_ = &test; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.failure_flags == doctest::TestCaseFailureReason::None) return;
    std::error_code ignored;
    out_ << "repeat with: OSM_TEST_SEED=" << osm::testing::seed()
         << (osm::testing::long_run() ? " OSM_TEST_LONG=1 " : " ")
         << std::filesystem::read_symlink("/proc/self/exe", ignored).string()
         << " '--test-case=" << pattern_for(test_->m_name) << "'"
         << (test_->m_skip ? " --no-skip" : "") << std::endl;
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  // A comma separates two filters of doctest, and a quote would end the shell's word.
  static std::string pattern_for(std::string_view name) {
    std::string pattern(name);
    for (char& each : pattern)
      if (each == ',' || each == '\'' || each == '\\') each = '?';
    return pattern;
  }

  std::ostream& out_;
  const doctest::TestCaseData* test_ = nullptr;
};

REGISTER_LISTENER("seed", 1, SeedListener);

}  // namespace
