// AdmissionReviews are parsed within bounds and answered with the uid of the request.
#include "inject/admission.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <optional>
#include <string>

#include "base/base64.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

namespace json = boost::json;

json::object review(json::object request) {
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"request", std::move(request)}};
}

json::object pod_request() {
  return {{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
          {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
          {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
          {"operation", "CREATE"},
          {"namespace", "bookstore"},
          {"dryRun", true},
          {"object", {{"kind", "Pod"}, {"metadata", {{"generateName", "web-"}}}}},
          {"oldObject", nullptr}};
}

std::optional<AdmissionRequest> request_in(const std::string& body) {
  std::optional<AdmissionRequest> read;
  answer_admission(body, [&](const AdmissionRequest& request) {
    read = request;
    return AdmissionResponse{};
  });
  return read;
}

// "<code> <message>" of the refusal.
std::string failure(const std::string& body) {
  const AdmissionAnswer answer = answer_admission(body, [](const AdmissionRequest&) {
    FAIL("it is a request");
    return AdmissionResponse{};
  });
  const json::value refused = json::parse(answer.body);
  const json::value& status = refused.at("response").at("status");
  return std::to_string(status.at("code").as_int64()) + ' ' +
         std::string(status.at("message").as_string());
}

json::object response_of(const AdmissionResponse& response) {
  const json::object answered = json::parse(admission_review("the-uid", response)).as_object();
  CHECK(answered.at("apiVersion") == "admission.k8s.io/v1");
  CHECK(answered.at("kind") == "AdmissionReview");
  return answered.at("response").as_object();
}

}  // namespace

TEST_SUITE("inject: reading an AdmissionReview") {
  TEST_CASE("a request is read with its object") {
    const auto request = request_in(json::serialize(review(pod_request())));
    REQUIRE(request);
    CHECK(request->uid == "705ab4f5-6393-11e8-b7cc-42010a800002");
    CHECK(request->operation == "CREATE");
    CHECK(request->group.empty());
    CHECK(request->version == "v1");
    CHECK(request->kind == "Pod");
    CHECK(request->ns == "bookstore");
    CHECK(request->name.empty());
    CHECK(request->dry_run);
    CHECK(request->object.at("metadata").at("generateName") == "web-");
    CHECK(request->old_object.empty());
  }

  TEST_CASE("a body that is no v1 review is refused by field") {
    CHECK(failure("{").find("400 the body is not JSON") == 0);
    CHECK(failure("[]") == "400 AdmissionReview: must be a map");
    json::object old = review(pod_request());
    old["apiVersion"] = "admission.k8s.io/v1beta1";
    CHECK(failure(json::serialize(old)) ==
          "400 AdmissionReview: apiVersion: must be admission.k8s.io/v1");
    json::object nobodys = pod_request();
    nobodys.erase("uid");
    CHECK(failure(json::serialize(review(nobodys))) ==
          "400 AdmissionReview: request.uid: required");
    json::object text = pod_request();
    text["object"] = "pod";
    CHECK(failure(json::serialize(review(text))) ==
          "400 AdmissionReview: request.object: must be a map");
  }

  TEST_CASE("size, depth and the number of values are bounded") {
    CHECK(failure(std::string(kMaxReviewBytes + 1, ' ')).find("413 ") == 0);
    CHECK(failure(std::string(kMaxReviewDepth + 1, '[')).find("levels deep") != std::string::npos);
    std::string many = "[0";
    for (std::size_t i = 0; i < kMaxReviewValues; ++i) many += ",0";
    CHECK(failure(many + "]").find("413 the AdmissionReview has more than") == 0);
  }

  TEST_CASE("commas and brackets in strings are no values") {
    json::object request = pod_request();
    request["object"].as_object()["note"] =
        "\"" + std::string(kMaxReviewValues, ',') + std::string(100, '[') + "\\";
    CHECK(request_in(json::serialize(review(request))));
  }
}

TEST_SUITE("inject::admission_review") {
  TEST_CASE("an answer without a patch has no other fields") {
    CHECK(response_of({}) == json::object{{"uid", "the-uid"}, {"allowed", true}});
  }

  TEST_CASE("a patch travels in base64") {
    const json::array patch{{{"op", "add"}, {"path", "/a"}, {"value", 1}}};
    const json::object response = response_of({.patch = patch});
    CHECK(response.at("patchType") == "JSONPatch");
    CHECK(json::parse(*from_base64(std::string(response.at("patch").as_string()))) == patch);
  }

  TEST_CASE("a refusal carries its message and code, and no patch") {
    AdmissionResponse response =
        AdmissionResponse::refused({ErrorCode::kInvalidField, "spec.x: must be y"});
    response.patch.emplace_back(nullptr);
    const json::object said = response_of(response);
    CHECK(said.at("allowed") == false);
    CHECK(said.at("status") == json::object{{"status", "Failure"},
                                            {"code", 422},
                                            {"reason", "Invalid"},
                                            {"message", "spec.x: must be y"}});
    CHECK_FALSE(said.contains("patch"));
  }

  TEST_CASE("warnings and messages are cut where API servers cut them") {
    AdmissionResponse response{.allowed = false, .message = std::string(1 << 20, 'm')};
    response.warnings = std::vector<std::string>(100, std::string(1000, 'w'));
    const json::object said = response_of(response);
    CHECK(said.at("warnings").as_array().size() == 16);
    CHECK(said.at("warnings").at(0).as_string().size() <= 260);
    CHECK(said.at("status").at("message").as_string().size() < 20'000);
  }
}

TEST_SUITE("inject::answer_admission") {
  TEST_CASE("the answer repeats the request's uid") {
    const AdmissionAnswer answer = answer_admission(
        json::serialize(review(pod_request())),
        [](const AdmissionRequest& r) { return AdmissionResponse{.allowed = r.kind == "Pod"}; });
    CHECK(answer.status == 200);
    const json::value response = json::parse(answer.body).at("response");
    CHECK(response.at("uid") == "705ab4f5-6393-11e8-b7cc-42010a800002");
    CHECK(response.at("allowed") == true);
  }

  TEST_CASE("a body that is no review reaches no decision function") {
    bool asked = false;
    const auto answer = [&](const std::string& body) {
      return answer_admission(body, [&](const AdmissionRequest&) {
        asked = true;
        return AdmissionResponse{};
      });
    };
    const AdmissionAnswer empty = answer("");
    CHECK(empty.status == 400);
    CHECK(json::parse(empty.body).at("error").at("code") == "invalid-syntax");

    json::object broken = pod_request();
    broken["object"] = "no map";
    for (const auto& [body, uid, code, message] :
         {std::tuple{std::string("{"), "", 400, "the body is not JSON"},
          std::tuple{std::string("{}"), "", 400, "AdmissionReview: apiVersion: required"},
          std::tuple{json::serialize(review(broken)), "705ab4f5-6393-11e8-b7cc-42010a800002", 400,
                     "AdmissionReview: request.object: must be a map"},
          std::tuple{std::string(kMaxReviewDepth + 1, '['), "", 413, "levels deep"}}) {
      CAPTURE(body);
      const AdmissionAnswer refused = answer(body);
      CHECK(refused.status == 200);
      const json::value response = json::parse(refused.body).at("response");
      CHECK(response.at("uid") == json::string(uid));
      CHECK(response.at("allowed") == false);
      CHECK(response.at("status").at("code") == code);
      CHECK(std::string(response.at("status").at("message").as_string()).find(message) !=
            std::string::npos);
    }
    CHECK_FALSE(asked);
  }
}
