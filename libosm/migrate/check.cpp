#include "osm/migrate/check.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "migrate/differences.hpp"

namespace osm::inline v1::migrate {

std::string_view verdict_text(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kTexts{"same", "more", "less", "nothing"};
  return kTexts[static_cast<std::size_t>(verdict)];
}

std::string_view access_text(Access access) {
  constexpr std::array<std::string_view, 3> kTexts{"same", "refused", "allowed"};
  return kTexts[static_cast<std::size_t>(access)];
}

bool Report::access_changes() const {
  return std::any_of(differences.begin(), differences.end(),
                     [](const Difference& each) { return each.access != Access::kSame; });
}

Result<Report> check(const std::vector<Dump>& dumps, const Options& options) {
  OSM_TRY(const Objects objects, read_dumps(dumps));
  Mesh mesh = make_mesh(objects, options);
  Differences differences;
  compare_versions(mesh, differences);
  compare_decoded(mesh, differences);
  compare_settings(mesh, differences);
  compare_policies(mesh, differences);
  compare_egress(mesh, differences);
  compare_targets(mesh, differences);
  compare_services(mesh, differences);
  compare_pods(mesh, differences);

  Report report;
  report.differences = std::move(differences).take();
  std::stable_sort(report.differences.begin(), report.differences.end(),
                   [](const Difference& a, const Difference& b) {
                     return std::tie(a.object, a.line) < std::tie(b.object, b.line);
                   });
  report.notes = std::move(mesh.notes);
  report.others = mesh.others;
  std::map<ObjectKey, Verdict> verdicts;
  for (const auto& [key, object] : mesh.objects) verdicts.emplace(key, Verdict::kSame);
  for (const Difference& each : report.differences)
    verdicts[each.object] = std::max(verdicts[each.object], each.verdict);
  for (const auto& [key, verdict] : verdicts) {
    report.same += verdict == Verdict::kSame;
    report.more += verdict == Verdict::kMore;
    report.less += verdict == Verdict::kLess;
    report.nothing += verdict == Verdict::kNothing;
  }
  return report;
}

}  // namespace osm::inline v1::migrate
