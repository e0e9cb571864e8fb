// Golden meshes translate to the recorded resources, and a real Envoy accepts them all.
//
// Golden meshes: tests/data/golden/<case>/in.yaml, as a user writes it, and beside it one folder
// per machine with what its proxy is sent, unless another file holds the same
// (tests/data/README.md). tools/golden writes them.
#include <cstdlib>
#include <map>
#include <set>

#include "catalog/mesh_builder.hpp"
#include "certificate/issuance.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "lib/places.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/runtime/system.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "translate/golden_text.hpp"
#include "translate/real_envoy.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
const fs::path kGolden = osm::testing::source_dir() / "tests/data/golden";
const fs::path kBlocks = kGolden / "blocks.yaml";
const char* const kDefaultCase = "worked-example";
const TrustDomain kDomain("cluster.local");

std::string content_of(const fs::path& file) {
  std::ifstream in(file);
  return (std::stringstream() << in.rdbuf()).str();
}

std::vector<fs::path> cases() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(kGolden))
    if (entry.is_directory()) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  REQUIRE_FALSE(out.empty());
  return out;
}

// As a controller reads it, but from memory.
Mesh mesh_of(const fs::path& golden) {
  testing::MemoryObjectStore store;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  const auto put = store.put_yaml(content_of(golden / "in.yaml"), (golden / "in.yaml").string());
  REQUIRE_MESSAGE(put.ok(), put.error().text());
  const auto spec = spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
  const auto machines = vm::make_vm_provider({store, *spec, kDomain, log, metrics});
  catalog::MeshBuilder builder(*spec, {{machines.get(), true}}, {machines.get()}, kDomain);
  const auto snapshot = builder.build();
  REQUIRE(snapshot);
  for (const Problem& problem : *snapshot->problems) MESSAGE(problem.text());
  Mesh mesh;
  mesh.snapshot = *snapshot;
  return mesh;
}

// Keys and times differ from run to run: what golden secrets show is their shape.
certificate::Certificate specimen() {
  certificate::Certificate out;
  out.chain_pem = "<chain>";
  out.private_key = certificate::PrivateKey("<private key>");
  return out;
}

json::object json_of(const std::vector<translate::EncodedResource>& resources) {
  envoy::service::discovery::v3::DiscoveryResponse response;
  for (const auto& resource : resources)
    REQUIRE(response.add_resources()->ParseFromString(resource.any));
  const auto text = translate::to_json(response, false);
  REQUIRE(text);
  json::object out = json::parse(*text).as_object();
  if (!out.contains("resources")) out["resources"] = json::array();
  return out;
}

std::string file_name(XdsType type) {
  std::string name(xds_type_text(type));
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return name + ".yaml";
}

// "server.s" → "lds.yaml" → what that proxy is sent. Proxies of one namespace adjoin.
using Proxies = std::map<std::string, std::map<std::string, json::object>>;

Proxies proxies_of(const Mesh& mesh) {
  Proxies out;
  for (const auto& entry : mesh.snapshot.workloads) {
    const auto of = translate::class_of(mesh.snapshot, entry->workload);
    auto& files = out[entry->workload.name.ns + '.' + entry->workload.name.name];
    for (const XdsType type : kXdsTypes) {
      std::vector<translate::EncodedResource> resources;
      for (const auto& input : mesh.inputs(of, type)) resources.push_back(input->encode());
      if (type == XdsType::kSecret) resources = secrets_of(specimen(), "<roots>");
      files[file_name(type)] = json_of(resources);
    }
  }
  return out;
}

// The blocks that nearly every file repeats, as the default case has them.
GoldenText text_with_blocks(const Proxies& defaults) {
  const auto block = [&](const char* proxy, const char* file, const char* key) {
    const json::value resources = defaults.at(proxy).at(file);
    const json::value* found = first_under(key, resources);
    REQUIRE(found != nullptr);
    return *found;
  };
  const auto log_of = [&](const char* proxy) {
    return block(proxy, "lds.yaml", "access_log").as_array().at(0).as_object().at("typed_config");
  };
  return GoldenText({{"inbound_access_log", log_of("server.s")},
                     {"outbound_access_log", log_of("client.c")},
                     {"tls_params", block("client.c", "cds.yaml", "tls_params")}});
}

// Compares texts with files, and writes them when tools/golden asks for it.
class GoldenFiles {
 public:
  explicit GoldenFiles(const std::map<std::string, Proxies>& cases)
      : cases_(cases), text_(text_with_blocks(cases.at(kDefaultCase))) {
    if (update_) std::ofstream(kBlocks) << text_.blocks_text();
    compare(kBlocks, text_.blocks_text(), read(kBlocks));
    if (update_)  // the default case first, since the others leave out what it has
      for (const std::string& name : names()) write(name);
    for (const std::string& name : names()) check(name);
  }

  void check_that_each_is_read() const {
    for (const auto& entry : fs::recursive_directory_iterator(kGolden)) {
      const bool is_read = read_.count(entry.path()) == 1;
      if (entry.is_regular_file())
        CHECK_MESSAGE(is_read, entry.path().string(), " is read by no test");
    }
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> out{kDefaultCase};
    for (const auto& [name, proxies] : cases_)
      if (name != kDefaultCase) out.push_back(name);
    return out;
  }

  // Files that may hold what a proxy is sent. The first that exists does: its own, that of the
  // first proxy of its namespace, that of such a proxy of the default case, that of the first one
  // there.
  std::vector<fs::path> places(const std::string& name, const std::string& proxy,
                               const std::string& file) const {
    std::vector<fs::path> out{kGolden / name / proxy / file};
    const auto add = [&](const std::string& other, const std::string& prefix) {
      const auto first = cases_.at(other).lower_bound(prefix);
      if (first == cases_.at(other).end() || !first->first.starts_with(prefix)) return;
      const fs::path path = kGolden / other / first->first / file;
      if (std::find(out.begin(), out.end(), path) == out.end()) out.push_back(path);
    };
    const std::string ns = proxy.substr(0, proxy.find('.') + 1);
    add(name, ns);
    add(kDefaultCase, ns);
    add(kDefaultCase, "");
    return out;
  }

  static std::vector<fs::path> existing(std::vector<fs::path> paths) {
    std::erase_if(paths, [](const fs::path& path) { return !fs::exists(path); });
    return paths;
  }

  void write(const std::string& name) const {
    for (const auto& [proxy, files] : cases_.at(name)) {
      for (const auto& [file, value] : files) {
        const auto own = places(name, proxy, file).front();
        const std::string text = text_.text_of(value);
        fs::remove(own);
        const auto others = existing(places(name, proxy, file));
        if (!others.empty() && content_of(others.front()) == text) continue;
        fs::create_directories(own.parent_path());
        std::ofstream(own) << text;
      }
    }
  }

  void check(const std::string& name) {
    read_.insert(kGolden / name / "in.yaml");
    for (const auto& [proxy, files] : cases_.at(name)) {
      for (const auto& [file, value] : files) {
        CAPTURE(name + '/' + proxy + '/' + file);
        const auto found = existing(places(name, proxy, file));
        REQUIRE_FALSE(found.empty());
        const std::string content = read(found[0]);
        compare(found[0], text_.text_of(value), content);
        const bool same = text_.value_of(content) == value;
        CHECK_MESSAGE(same, found[0].string(), " has other values; tools/golden writes it anew");
        const bool superfluous = found.size() > 1 && content == content_of(found[1]);
        CHECK_FALSE_MESSAGE(superfluous, found[0].string(), " is the same as ", found[1].string(),
                            " and must be left out; tools/golden removes it");
      }
    }
  }

  std::string read(const fs::path& file) {
    read_.insert(file);
    return content_of(file);
  }

  static void compare(const fs::path& file, const std::string& text, const std::string& content) {
    const bool same = text == content;
    const auto differ = std::mismatch(text.begin(), text.end(), content.begin(), content.end());
    const auto line = 1 + std::count(text.begin(), differ.first, '\n');
    CHECK_MESSAGE(same, file.string(), ":", line, " differs; tools/golden writes it anew");
  }

  const bool update_ = std::getenv("OSM_UPDATE_GOLDEN") != nullptr;
  const std::map<std::string, Proxies>& cases_;
  const GoldenText text_;
  std::set<fs::path> read_;
};

}  // namespace

TEST_SUITE("translate golden") {
  TEST_CASE(
      "every mesh gives every proxy exactly the resources on file, and no file is left over") {
    std::map<std::string, Proxies> all;
    for (const fs::path& golden : cases()) {
      CAPTURE(golden.filename().string());
      const Mesh mesh = mesh_of(golden);
      CHECK_FALSE(mesh.snapshot.workloads.empty());
      all[golden.filename()] = proxies_of(mesh);
    }
    GoldenFiles(all).check_that_each_is_read();
  }

  TEST_CASE("a golden text reads back as the value that was written, and blocks as aliases") {
    const json::value block = json::parse(R"({"b": [{"c": "x"}], "a": 1})");
    const GoldenText text({{"block", block}});
    json::object value;
    json::array words;
    for (const char* word :
         {"",   "true",  "No",   "null", "1",      "1.5",        "5s",      "*block",
          "&a", "- a",   "a: b", "a #b", "a\"b\\", "two\nlines", " a",      "[",
          "{}", "@type", "~",    "osm",  "/v1",    "a%b|c",      "\xc3\xa9"}) {
      value[word] = word;
      words.push_back(word);
    }
    value["words"] = words;
    value["others"] =
        json::array{nullptr, true, -1, 4294967295, 0.5, json::object(), json::array()};
    value["inner"] = json::array{json::array{std::string(99, 'a'), json::object{{"z", block}}}};
    value["block"] = block;
    value["other order"] = json::parse(R"({"a": 1, "b": [{"c": "x"}]})");
    const std::string written = text.text_of({{"all", value}});
    INFO(written);
    const bool same = text.value_of(written) == json::object{{"all", value}};
    CHECK(same);
    CHECK(written.find("\n  block: *block\n") != written.npos);
    CHECK(written.find("\n  other order: ") == written.npos);  // quoted, since it has a space
    CHECK(written.find("\n  \"other order\": {a: 1, b: [{c: x}]}\n") != written.npos);
    CHECK(written.find("{z: *block}") != written.npos);
  }

  TEST_CASE("a real Envoy accepts every resource of every golden proxy and warms it all") {
    TemporaryDirectory directory;
    SystemClock clock;
    auto ca = certificate::load_or_create_directory_ca({directory.file("ca"), kDomain, clock});
    REQUIRE(ca.ok());
    for (const fs::path& golden : cases()) {
      const Mesh mesh = mesh_of(golden);
      for (const auto& entry : mesh.snapshot.workloads) {
        const std::string proxy = golden.filename().string() + " " + entry->workload.name.str();
        CAPTURE(proxy);
        const auto of = translate::class_of(mesh.snapshot, entry->workload);
        certificate::Subject subject{CommonName("golden"), spiffe_id(kDomain, of.identity),
                                     certificate::Usage::kWorkload};
        const auto own = certificate::issue(**ca, subject, std::chrono::hours(1), {}, clock);
        REQUIRE(own.ok());
        RealEnvoy envoy(mesh, of, *own, (*ca)->trust_bundle_pem(),
                        {{"\"port_value\":15001", "\"port_value\":0"},
                         {"\"port_value\":15003", "\"port_value\":0"},
                         // Nobody knows these names here, which Envoy counts as a failed update.
                         {"jaeger.osm-system.svc.cluster.local", "localhost"},
                         {"limiter.example.com", "127.0.0.11"},
                         {"other.example.com", "127.0.0.12"},
                         {"pay.example.com", "127.0.0.13"},
                         {"api.example.net", "127.0.0.14"}});
        CHECK(envoy.accepted_everything());
      }
    }
  }
}
