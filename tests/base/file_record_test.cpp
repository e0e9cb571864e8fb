// A record in a file is replaced only by who read its last version.
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "lib/record_contract.hpp"
#include "lib/temporary_directory.hpp"

TEST_SUITE("make_file_record") {
  TEST_CASE("the contract of records is kept") {
    const osm::testing::TemporaryDirectory folder;
    osm::testing::check_record_contract(
        [&] { return osm::make_file_record(folder.file("rotation.json")); });
  }

  TEST_CASE("of several threads that store over one version, one succeeds") {
    constexpr int kThreads = 4, kSteps = 50;
    const osm::testing::TemporaryDirectory folder;
    const auto record = osm::make_file_record(folder.file("tokens.json"));
    std::atomic<int> faults = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
          for (int done = 0; done < kSteps;) {
            const auto present = record->load();
            if (!present.ok()) {
              ++faults;
              return;
            }
            const int count = present->text.empty() ? 0 : std::stoi(present->text);
            const osm::Status stored = record->store({std::to_string(count + 1), present->version});
            if (stored.ok()) ++done;
            if (!stored.ok() && stored.error().code != osm::ErrorCode::kConflict) {
              ++faults;
              return;
            }
          }
        });
    }
    CHECK(faults == 0);
    CHECK(record->load()->text == std::to_string(kThreads * kSteps));
  }
}
