#include "osm/etcd/backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "etcd/gateway.hpp"
#include "etcd/replicas.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/spec/etcd_store.hpp"

namespace osm::inline v1::etcd {
namespace {

constexpr std::chrono::milliseconds kDeadline{2000};  // a lease lives 15 s

namespace json = boost::json;

// One value of etcd. Its version is the key's mod_revision.
class EtcdRecord final : public TextRecord {
 public:
  EtcdRecord(const std::string& what, const std::string& key, std::unique_ptr<Gateway> gateway)
      : key_(base64(key)),
        name_(what + " at " + gateway->name_of(key)),
        gateway_(std::move(gateway)) {}

  std::string name() const override { return name_; }

  Result<Text> load() override {
    Text stored;
    const Status read =
        gateway_->post("kv/range", json::serialize(json::object{{"key", key_}}),
                       [&](json::object& answer) -> Status {
                         const json::array& pairs = list_at(answer, "kvs");
                         if (pairs.empty()) return {};  // zero is left out
                         auto text = from_base64(text_at(pairs.front(), "value"));
                         if (!text) return not_etcd();
                         stored = {*std::move(text), text_at(pairs.front(), "mod_revision")};
                         return {};
                       });
    if (!read.ok()) return failed(read.error());
    return stored;
  }

  Status store(const Text& next) override {
    // A key that does not exist has the revision 0.
    const json::object unchanged{{"target", "MOD"},
                                 {"result", "EQUAL"},
                                 {"key", key_},
                                 {"mod_revision", next.version.empty() ? "0" : next.version}};
    const json::object put{{"request_put", {{"key", key_}, {"value", base64(next.text)}}}};
    const json::object body{{"compare", json::array{unchanged}}, {"success", json::array{put}}};
    bool stored = false;
    const Status done =
        gateway_->post("kv/txn", json::serialize(body), [&](const json::object& answer) {
          stored = bool_at(answer, "succeeded").value_or(false);
          return Status();
        });
    if (!done.ok()) return failed(done.error());
    if (!stored) return Error{ErrorCode::kConflict, name_ + ": is not what was read any more"};
    return {};
  }

 private:
  Error failed(const Error& error) const {
    Error out = error.with_context(name_);
    if (error.code != ErrorCode::kUnavailable && error.code != ErrorCode::kPermissionDenied)
      out.code = ErrorCode::kStorage;
    return out;
  }

  const std::string key_;
  const std::string name_;
  const std::unique_ptr<Gateway> gateway_;
};

Result<std::unique_ptr<TextRecord>> open_record(const std::string& what, const char* below,
                                                CaStoreOptions etcd) {
  const std::string key = etcd.key + below;
  OSM_TRY(auto gateway, Gateway::open(std::move(etcd)));
  return std::unique_ptr<TextRecord>(std::make_unique<EtcdRecord>(what, key, std::move(gateway)));
}

Result<std::unique_ptr<TextRecord>> open_rotation(const CaStoreOptions& etcd) {
  return open_record("record of root rotations", "/rotation", etcd);
}

// The shared record takes over that of `file` if it is empty. Otherwise it wins, because other
// controllers act on it. The file is kept under another name.
Status move_record(const std::string& file, TextRecord& shared, LogSink& log) {
  if (file.empty() || (::access(file.c_str(), F_OK) != 0 && errno == ENOENT)) return {};
  const auto record = make_file_record(file);
  OSM_TRY(const TextRecord::Text local, record->load());
  OSM_TRY(const TextRecord::Text present, shared.load());
  bool moves = present.text.empty();
  if (moves) {
    // A damaged one would stop every controller.
    if (const auto read = known_ca(*record, kOwnRoot); !read.ok())
      return read.error().with_context(file);
    const Status stored = shared.store({local.text, present.version});
    moves = stored.ok();
    // On a conflict another controller was first.
    if (!moves && stored.error().code != ErrorCode::kConflict) return stored;
  }
  const std::string kept = file + ".old";
  if (std::rename(file.c_str(), kept.c_str()) != 0)
    return Error{ErrorCode::kStorage, file + ": cannot be renamed to " + kept + " (" +
                                          std::generic_category().message(errno) +
                                          "); rename or remove it"};
  log.warning(moves ? "the record of root rotations has moved into etcd"
                    : "the record of root rotations in etcd is in force, not this machine's",
              {{"from", kept}, {"record", shared.name()}});
  return {};
}

}  // namespace

Result<Backend> make_backend(const BackendOptions& given) {
  BackendOptions options = given;
  options.etcd.deadline = std::min(options.etcd.deadline, kDeadline);
  Backend backend{.replica = options.replica};
  if (!options.objects_key.empty()) {
    CaStoreOptions etcd = options.etcd;
    etcd.key = options.objects_key;
    backend.objects_in = "etcd:" + etcd.key;
    OSM_TRY(backend.objects, make_object_store({.etcd = etcd, .runtime = options.objects}));
    OSM_TRY(backend.last_mesh_config, open_record("last MeshConfig", "/mesh-config", etcd));
    OSM_TRY(backend.writer, make_object_writer(etcd));
  }
  OSM_TRY(backend.drained_machines,
          open_record("drained machines", "/drained-machines", options.etcd));
  OSM_TRY(backend.root_rotation, open_rotation(options.etcd));
  OSM_TRY(backend.join_tokens, open_record("tokens of machines", "/join-tokens", options.etcd));
  backend.ca_store = [etcd = given.etcd](const CaPlace& place) {
    CaStoreOptions ca = etcd;
    if (place.root != kOwnRoot) ca.key += "/roots/" + place.root;
    return make_ca_store(std::move(ca));
  };
  backend.join = [options]() -> Result<std::unique_ptr<ReplicaBoard>> {
    // The record's version decides races, so no board is needed. A damaged file fails before the
    // others see this replica.
    OSM_TRY(const auto record, open_rotation(options.etcd));
    OSM_TRY(move_record(options.moved_from, *record, options.board.log));
    return make_replicas(options);
  };
  return backend;
}

}  // namespace osm::inline v1::etcd
