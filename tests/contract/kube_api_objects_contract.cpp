// An API server creates, applies, patches, conflicts and deletes as the real one does.
//
// Behaviour of single objects on an API server that plugins/kubernetes relies on.
#include <doctest/doctest.h>

#include "contract/kube_api_server.hpp"

namespace osm::contract {
namespace {

using kubernetes::kConfigMaps;
using kubernetes::kLeases;
using kubernetes::kMutatingWebhooks;
using kubernetes::kTrafficTargets;
using kubernetes::Patch;
using kubernetes::PatchType;

Patch merge_patch(const json::object& body, const std::string& subresource = {}) {
  return {.type = PatchType::kMerge, .body = json::serialize(body), .subresource = subresource};
}
Patch apply_patch(const json::object& body, const std::string& manager, bool force = false,
                  const std::string& subresource = {}) {
  return {.type = PatchType::kApply,
          .body = json::serialize(body),
          .subresource = subresource,
          .field_manager = manager,
          .force = force};
}
bool contains(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

json::object lease(const std::string& ns, const std::string& holder) {
  return {{"apiVersion", kLeases.api_version()},
          {"kind", "Lease"},
          {"metadata", {{"namespace", ns}, {"name", "osm"}}},
          {"spec",
           {{"holderIdentity", holder},
            {"leaseDurationSeconds", 15},
            {"renewTime", "2024-01-01T00:00:00.000000Z"},
            {"leaseTransitions", 0}}}};
}

TEST_SUITE("API server contract: writing") {
  TEST_CASE("a created object has an identity and a version, and is read as it was answered") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("create");
      const json::object made =
          value_of(server->api().create(kConfigMaps, config_map("create", "x", "1")));
      CHECK(text_at(made, "/kind") == "ConfigMap");
      CHECK(text_at(made, "/apiVersion") == "v1");
      CHECK_FALSE(text_at(made, "/metadata/uid").empty());
      CHECK_FALSE(version_of(made).empty());
      CHECK(text_at(made, "/metadata/creationTimestamp").ends_with("Z"));
      const json::object read = value_of(server->api().get(kConfigMaps, "create", "x"));
      CHECK(read == made);
      CHECK(text_at(read, "/data/key") == "1");
    }
  }

  TEST_CASE("a name that is taken is refused, and the object stays") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("taken");
      REQUIRE(server->api().create(kConfigMaps, config_map("taken", "x", "1")).ok());
      const Error error =
          error_of(server->api().create(kConfigMaps, config_map("taken", "x", "2")));
      CHECK(error.code == ErrorCode::kAlreadyExists);
      CHECK(text_at(value_of(server->api().get(kConfigMaps, "taken", "x")), "/data/key") == "1");
    }
  }

  TEST_CASE("an absent object is not found, whatever is asked of it") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("absent");
      auto& api = server->api();
      CHECK(error_of(api.get(kConfigMaps, "absent", "x")).code == ErrorCode::kNotFound);
      json::object versioned = config_map("absent", "x", "1");
      versioned["metadata"].as_object()["resourceVersion"] = "1";
      CHECK(error_of(api.update(kConfigMaps, versioned)).code == ErrorCode::kNotFound);
      CHECK(error_of(api.patch(kConfigMaps, "absent", "x", merge_patch({{"data", json::object()}})))
                .code == ErrorCode::kNotFound);
      CHECK(error_of(api.remove(kConfigMaps, "absent", "x")).code == ErrorCode::kNotFound);
      const json::object status{{"apiVersion", kTrafficTargets.api_version()},
                                {"kind", "TrafficTarget"},
                                {"metadata", {{"namespace", "absent"}, {"name", "x"}}},
                                {"status", json::object()}};
      CHECK(error_of(api.patch(kTrafficTargets, "absent", "x",
                               apply_patch(status, "osm", true, "status")))
                .code == ErrorCode::kNotFound);
    }
  }

  TEST_CASE("an invalid name is refused with its field") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("invalid");
      const Error error =
          error_of(server->api().create(kConfigMaps, config_map("invalid", "Not_A_Name", "1")));
      CHECK(error.code == ErrorCode::kInvalidField);
      CHECK(contains(error.message, "metadata.name"));
    }
  }

  TEST_CASE("an update of an older version is a conflict, and the object stays") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("stale");
      auto& api = server->api();
      json::object mine = value_of(api.create(kConfigMaps, config_map("stale", "x", "1")));
      json::object theirs = mine;
      theirs["data"] = json::object{{"key", "2"}};
      const json::object changed = value_of(api.update(kConfigMaps, theirs));
      CHECK(version_of(changed) != version_of(mine));
      mine["data"] = json::object{{"key", "3"}};
      CHECK(error_of(api.update(kConfigMaps, mine)).code == ErrorCode::kConflict);
      CHECK(text_at(value_of(api.get(kConfigMaps, "stale", "x")), "/data/key") == "2");
    }
  }

  TEST_CASE("an update without a version replaces a ConfigMap; other kinds want the version") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("unversioned");
      auto& api = server->api();
      REQUIRE(api.create(kConfigMaps, config_map("unversioned", "x", "1")).ok());
      const auto replaced = value_of(api.update(kConfigMaps, config_map("unversioned", "x", "2")));
      CHECK(text_at(replaced, "/data/key") == "2");

      REQUIRE(api.create(kLeases, lease("unversioned", "a")).ok());
      const Error of_lease = error_of(api.update(kLeases, lease("unversioned", "b")));
      CHECK(of_lease.code == ErrorCode::kInvalidField);
      CHECK(contains(of_lease.message, "metadata.resourceVersion"));
      REQUIRE(api.create(kTrafficTargets, traffic_target("unversioned", "x", "a")).ok());
      const Error of_custom =
          error_of(api.update(kTrafficTargets, traffic_target("unversioned", "x", "b")));
      CHECK(of_custom.code == ErrorCode::kInvalidField);
      CHECK(contains(of_custom.message, "metadata.resourceVersion"));
    }
  }

  TEST_CASE("an update creates a Lease that was deleted meanwhile") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("lease-again");
      auto& api = server->api();
      json::object read = value_of(api.create(kLeases, lease("lease-again", "a")));
      REQUIRE(api.remove(kLeases, "lease-again", "osm").ok());
      read["metadata"].as_object().erase("uid");
      read["spec"].as_object()["holderIdentity"] = "b";
      const json::object again = value_of(api.update(kLeases, read));
      CHECK(text_at(again, "/spec/holderIdentity") == "b");
      CHECK_FALSE(text_at(again, "/metadata/uid").empty());
    }
  }

  TEST_CASE("an update of another object of that name is a conflict") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("other-uid");
      auto& api = server->api();
      REQUIRE(api.create(kConfigMaps, config_map("other-uid", "x", "1")).ok());
      json::object other = config_map("other-uid", "x", "2");
      other["metadata"].as_object()["uid"] = "00000000-0000-0000-0000-000000000000";
      CHECK(error_of(api.update(kConfigMaps, other)).code == ErrorCode::kConflict);
    }
  }

  TEST_CASE("a write that changes nothing keeps the version") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("same");
      auto& api = server->api();
      const json::object made = value_of(api.create(kConfigMaps, config_map("same", "x", "1")));
      CHECK(version_of(value_of(api.update(kConfigMaps, made))) == version_of(made));
      const auto merged =
          value_of(api.patch(kConfigMaps, "same", "x", merge_patch({{"data", {{"key", "1"}}}})));
      CHECK(version_of(merged) == version_of(made));
    }
  }

  TEST_CASE("a deletion is held to the identity and the version that it names") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("delete");
      auto& api = server->api();
      const json::object made = value_of(api.create(kConfigMaps, config_map("delete", "x", "1")));
      CHECK(error_of(api.remove(kConfigMaps, "delete", "x",
                                {.uid = "00000000-0000-0000-0000-000000000000"}))
                .code == ErrorCode::kConflict);
      const json::object changed =
          value_of(api.patch(kConfigMaps, "delete", "x", merge_patch({{"data", {{"key", "2"}}}})));
      CHECK(error_of(api.remove(kConfigMaps, "delete", "x", {.resource_version = version_of(made)}))
                .code == ErrorCode::kConflict);
      CHECK(api.remove(
                   kConfigMaps, "delete", "x",
                   {.uid = text_at(made, "/metadata/uid"), .resource_version = version_of(changed)})
                .ok());
      CHECK(error_of(api.get(kConfigMaps, "delete", "x")).code == ErrorCode::kNotFound);
      // The next object of that name is another one.
      const json::object next = value_of(api.create(kConfigMaps, config_map("delete", "x", "1")));
      CHECK(text_at(next, "/metadata/uid") != text_at(made, "/metadata/uid"));
    }
  }

  TEST_CASE("of two replicas that take a Lease at once, one gets a conflict") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("leases");
      auto& api = server->api();
      REQUIRE(api.create(kLeases, lease("leases", "")).ok());
      CHECK(error_of(api.create(kLeases, lease("leases", "b"))).code == ErrorCode::kAlreadyExists);
      json::object first = value_of(api.get(kLeases, "leases", "osm"));
      json::object second = first;
      first["spec"].as_object()["holderIdentity"] = "a";
      second["spec"].as_object()["holderIdentity"] = "b";
      const json::object held = value_of(api.update(kLeases, first));
      CHECK(error_of(api.update(kLeases, second)).code == ErrorCode::kConflict);
      CHECK(text_at(held, "/spec/holderIdentity") == "a");
      CHECK(text_at(held, "/spec/renewTime") == "2024-01-01T00:00:00.000000Z");
      CHECK(version_of(held) == version_of(value_of(api.get(kLeases, "leases", "osm"))));
    }
  }
}

TEST_SUITE("API server contract: merge patches") {
  TEST_CASE("a merge patch sets members, and removes those that are null") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("merge");
      auto& api = server->api();
      REQUIRE(api.create(kConfigMaps, config_map("merge", "x", "1")).ok());
      const auto more = value_of(api.patch(
          kConfigMaps, "merge", "x",
          merge_patch({{"metadata", {{"labels", {{"a", "b"}}}}}, {"data", {{"more", "2"}}}})));
      CHECK(value_at(more, "/data") == json::object{{"key", "1"}, {"more", "2"}});
      CHECK(text_at(more, "/metadata/labels/a") == "b");
      const auto less = value_of(
          api.patch(kConfigMaps, "merge", "x", merge_patch({{"data", {{"key", nullptr}}}})));
      CHECK(value_at(less, "/data") == json::object{{"more", "2"}});
    }
  }

  TEST_CASE(
      "a merge patch that names another version is a conflict, another identity alone is not") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("merge-stale");
      auto& api = server->api();
      const auto made = value_of(api.create(kConfigMaps, config_map("merge-stale", "x", "1")));
      constexpr const char* kOther = "00000000-0000-0000-0000-000000000000";
      const auto patch = [&](const json::object& metadata) {
        return api.patch(kConfigMaps, "merge-stale", "x",
                         merge_patch({{"metadata", metadata}, {"data", {{"key", "3"}}}}));
      };
      const std::string uid = text_at(made, "/metadata/uid");
      REQUIRE(patch({{"resourceVersion", version_of(made)}, {"uid", uid}}).ok());
      CHECK(error_of(patch({{"resourceVersion", version_of(made)}})).code == ErrorCode::kConflict);
      CHECK(error_of(patch({{"resourceVersion", version_of(made)}, {"uid", kOther}})).code ==
            ErrorCode::kConflict);
      CHECK(error_of(patch({{"uid", kOther}})).code == ErrorCode::kInvalidField);
    }
  }
}

TEST_SUITE("API server contract: status and generation") {
  TEST_CASE("the status is written by its subresource alone, and nothing else by that") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("status");
      auto& api = server->api();
      const json::object status{
          {"conditions",
           json::array{json::object{{"type", "Accepted"},
                                    {"status", "True"},
                                    {"reason", "Valid"},
                                    {"message", ""},
                                    {"lastTransitionTime", "2024-01-01T00:00:00Z"}}}}};
      json::object object = traffic_target("status", "x", "a");
      object["status"] = status;
      json::object made = value_of(api.create(kTrafficTargets, object));
      CHECK_FALSE(made.contains("status"));
      made["status"] = status;
      made["spec"].as_object()["destination"].as_object()["name"] = "b";
      json::object spec_changed = value_of(api.update(kTrafficTargets, made));
      CHECK_FALSE(spec_changed.contains("status"));
      CHECK(text_at(spec_changed, "/spec/destination/name") == "b");

      spec_changed["status"] = status;
      spec_changed["spec"].as_object()["destination"].as_object()["name"] = "c";
      const json::object written = value_of(api.update(kTrafficTargets, spec_changed, "status"));
      CHECK(text_at(written, "/status/conditions/0/type") == "Accepted");
      CHECK(text_at(written, "/spec/destination/name") == "b");
      CHECK(version_of(written) != version_of(made));

      const json::object merged =
          value_of(api.patch(kTrafficTargets, "status", "x",
                             merge_patch({{"status", {{"conditions", json::array()}}},
                                          {"spec", {{"destination", {{"name", "d"}}}}}},
                                         "status")));
      CHECK(value_at(merged, "/status/conditions") == json::array());
      CHECK(text_at(merged, "/spec/destination/name") == "b");
    }
  }

  TEST_CASE("the generation counts changes of the spec, and neither status nor labels") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("generation");
      auto& api = server->api();
      const auto generation = [](const json::object& object) {
        return json::value_to<std::int64_t>(value_at(object, "/metadata/generation"));
      };
      const auto patch = [&](const Patch& how) {
        return generation(value_of(api.patch(kTrafficTargets, "generation", "x", how)));
      };
      CHECK(generation(value_of(
                api.create(kTrafficTargets, traffic_target("generation", "x", "a")))) == 1);
      CHECK(patch(merge_patch({{"spec", {{"destination", {{"name", "b"}}}}}})) == 2);
      CHECK(patch(merge_patch({{"metadata", {{"labels", {{"a", "b"}}}}}})) == 2);
      CHECK(patch(merge_patch({{"status", {{"conditions", json::array()}}}}, "status")) == 2);
      CHECK(patch(merge_patch({{"spec", {{"destination", {{"name", "a"}}}}}})) == 3);
    }
  }

  TEST_CASE("a ConfigMap has no generation") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("no-generation");
      const auto made =
          value_of(server->api().create(kConfigMaps, config_map("no-generation", "x", "1")));
      CHECK(value_at(made, "/metadata/generation").is_null());
    }
  }
}

TEST_SUITE("API server contract: server-side apply") {
  TEST_CASE("an apply creates the object, also where it names a version of one that is gone") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("apply");
      auto& api = server->api();
      json::object versioned = config_map("apply", "x", "1");
      versioned["metadata"].as_object()["resourceVersion"] = "1";
      CHECK(api.patch(kConfigMaps, "apply", "x", apply_patch(versioned, "osm", true)).ok());
      REQUIRE(api.remove(kConfigMaps, "apply", "x").ok());
      const json::object body = config_map("apply", "x", "1");
      const auto made = value_of(api.patch(kConfigMaps, "apply", "x", apply_patch(body, "osm")));
      CHECK(text_at(made, "/data/key") == "1");
      const auto again = value_of(api.patch(kConfigMaps, "apply", "x", apply_patch(body, "osm")));
      CHECK(version_of(again) == version_of(made));
      versioned["metadata"].as_object()["resourceVersion"] = "1";
      CHECK(error_of(api.patch(kConfigMaps, "apply", "x", apply_patch(versioned, "osm", true)))
                .code == ErrorCode::kConflict);
    }
  }

  TEST_CASE("a field of another manager is a conflict that names both, and is taken by force") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("apply-force");
      auto& api = server->api();
      const auto put = [&](const std::string& value, const std::string& manager, bool force) {
        return api.patch(kConfigMaps, "apply-force", "x",
                         apply_patch(config_map("apply-force", "x", value), manager, force));
      };
      REQUIRE(put("1", "first", false).ok());
      const Error error = error_of(put("2", "second", false));
      CHECK(error.code == ErrorCode::kConflict);
      CHECK(contains(error.message, ".data.key"));
      CHECK(contains(error.message, "first"));
      CHECK(text_at(value_of(put("2", "second", true)), "/data/key") == "2");
      CHECK(error_of(put("1", "first", false)).code == ErrorCode::kConflict);
      // A value that both want is no conflict.
      CHECK(put("2", "first", false).ok());
    }
  }

  TEST_CASE("a field that its only manager leaves out is removed, a shared one stays") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("apply-less");
      auto& api = server->api();
      const auto put = [&](const json::object& data, const std::string& manager) {
        json::object body = config_map("apply-less", "x", "");
        body["data"] = data;
        return value_at(
            value_of(api.patch(kConfigMaps, "apply-less", "x", apply_patch(body, manager))),
            "/data");
      };
      CHECK(put({{"a", "1"}, {"b", "1"}, {"c", "1"}}, "first").as_object().size() == 3);
      CHECK(put({{"b", "1"}, {"d", "1"}}, "second").as_object().size() == 4);
      CHECK(put({{"c", "1"}}, "first") == json::object{{"b", "1"}, {"c", "1"}, {"d", "1"}});
    }
  }

  TEST_CASE("an edited field belongs to its editor from then on") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("apply-edit");
      auto& api = server->api();
      const auto put = [&](const std::string& value) {
        return api.patch(kConfigMaps, "apply-edit", "x",
                         apply_patch(config_map("apply-edit", "x", value), "osm-applies"));
      };
      REQUIRE(put("1").ok());
      REQUIRE(
          api.patch(kConfigMaps, "apply-edit", "x", merge_patch({{"data", {{"key", "2"}}}})).ok());
      CHECK(error_of(put("1")).code == ErrorCode::kConflict);
      json::object without = config_map("apply-edit", "x", "");
      without.erase("data");
      const auto left =
          value_of(api.patch(kConfigMaps, "apply-edit", "x", apply_patch(without, "osm-applies")));
      CHECK(text_at(left, "/data/key") == "2");
    }
  }

  TEST_CASE("conditions of a status are told apart by their type") {
    for (const auto& server : kube_servers()) {
      server->make_namespace("apply-status");
      auto& api = server->api();
      const auto made =
          value_of(api.create(kTrafficTargets, traffic_target("apply-status", "x", "a")));
      const auto put = [&](const std::string& manager, const std::vector<std::string>& types) {
        json::array conditions;
        for (const std::string& type : types)
          conditions.push_back(json::object{{"type", type},
                                            {"status", "True"},
                                            {"reason", "Valid"},
                                            {"message", ""},
                                            {"lastTransitionTime", "2024-01-01T00:00:00Z"}});
        const json::object body{{"apiVersion", kTrafficTargets.api_version()},
                                {"kind", "TrafficTarget"},
                                {"metadata", {{"namespace", "apply-status"}, {"name", "x"}}},
                                {"status", {{"conditions", std::move(conditions)}}}};
        const auto now = value_of(api.patch(kTrafficTargets, "apply-status", "x",
                                            apply_patch(body, manager, true, "status")));
        CHECK(value_at(now, "/spec") == value_at(made, "/spec"));
        std::string all;
        const json::value kept = value_at(now, "/status/conditions");
        for (const json::value& each : kept.as_array())
          all += text_at(each.as_object(), "/type") + ' ';
        return all;
      };
      CHECK(put("first", {"Accepted"}) == "Accepted ");
      CHECK(put("second", {"Programmed", "Other"}) == "Accepted Programmed Other ");
      CHECK(put("second", {"Other"}) == "Accepted Other ");
      CHECK(put("first", {}) == "Other ");
    }
  }

  TEST_CASE("webhooks are told apart by their name") {
    for (const auto& server : kube_servers()) {
      auto& api = server->api();
      const auto body = [](const std::vector<std::string>& names) {
        json::array webhooks;
        for (const std::string& name : names)
          webhooks.push_back(
              json::object{{"name", name},
                           {"clientConfig", {{"url", "https://127.0.0.1:9443/" + name}}},
                           {"sideEffects", "None"},
                           {"admissionReviewVersions", json::array{"v1"}}});
        return json::object{{"apiVersion", kMutatingWebhooks.api_version()},
                            {"kind", "MutatingWebhookConfiguration"},
                            {"metadata", {{"name", "contract"}}},
                            {"webhooks", std::move(webhooks)}};
      };
      const auto names = [](const json::object& object) {
        std::string all;
        const json::value webhooks = value_at(object, "/webhooks");
        for (const json::value& each : webhooks.as_array())
          all += text_at(each.as_object(), "/name") + ' ';
        return all;
      };
      const auto put = [&](const std::string& manager, const std::vector<std::string>& wanted) {
        return names(value_of(api.patch(kMutatingWebhooks, "", "contract",
                                        apply_patch(body(wanted), manager, true))));
      };
      CHECK(put("first", {"a.example.io", "b.example.io"}) == "a.example.io b.example.io ");
      CHECK(put("second", {"c.example.io"}) == "a.example.io b.example.io c.example.io ");
      CHECK(put("first", {"b.example.io"}) == "b.example.io c.example.io ");
      // An update without a version: not taken.
      CHECK(error_of(api.update(kMutatingWebhooks, body({"b.example.io"}))).code ==
            ErrorCode::kInvalidField);
      REQUIRE(api.remove(kMutatingWebhooks, "", "contract").ok());
    }
  }
}

TEST_SUITE("API server contract: version") {
  TEST_CASE("the server tells its version") {
    for (const auto& server : kube_servers()) {
      const std::string version = value_of(server->api().server_version());
      CHECK(version.starts_with("v1."));
    }
  }
}

}  // namespace
}  // namespace osm::contract
