#include "app/server/api_server.h"

#include <httplib.h>
#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

#include "app/server/api_request.h"
#include "app/server/api_response.h"
#include "app/server/connection_threads.h"
#include "app/server/metrics_text.h"
#include "engine/model/model.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {
namespace {

using engine::Error;
using engine::ErrorCode;
using engine::fail;
using engine::Result;
using httplib::Request;
using httplib::Response;

constexpr std::size_t kMaxConnections = 512;
// How often a waiting request looks whether its client is still there, and the server still runs.
constexpr std::chrono::milliseconds kPatience{200};

const char* const kJson = "application/json";

void send(Response& response, int status, std::string body) {
  response.status = status;
  response.set_content(std::move(body), kJson);
}

void sendError(Response& response, const Error& error) {
  send(response, httpStatus(error.code), errorBody(error));
}

bool isLoopbackName(std::string_view name) {
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || name == "::1";
}

// "host:port" without its port.
std::string_view hostPart(std::string_view host) {
  if (!host.empty() && host.front() == '[') return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// Takes as long for a wrong key as for a right one.
bool sameKey(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < key.size(); ++i) {
    difference |= static_cast<unsigned char>(key[i]) ^
                  static_cast<unsigned char>(i < given.size() ? given[i] : 0);
  }
  return difference == 0;
}

std::string pathName(const std::filesystem::path& path) {
  const auto name = path.stem().u8string();
  return {name.begin(), name.end()};
}

}  // namespace

struct ApiServer::Impl {
  Impl(engine::Engine& theEngine, EventRouter& theRouter, Options theOptions)
      : engine(theEngine), router(theRouter), options(std::move(theOptions)) {}

  using ModelPtr = std::shared_ptr<const engine::Model>;

  void configure();
  httplib::Server::HandlerResponse admit(const Request& request, Response& response) const;
  void post(const char* path, Result<std::string> (Impl::*answer)(const Json&));
  void postGenerate(const char* path, bool isChat);
  bool readBody(const httplib::ContentReader& reader, const Request& request, Response& response,
                Json& body) const;
  void generate(const Json& body, bool isChat, Response& response);

  Result<ModelPtr> loadedModel() const;
  std::string modelName(const engine::Model& model) const;
  Json modelEntry(const engine::Model& model) const;
  std::string models() const;
  Result<std::string> tokenize(const Json& body);
  Result<std::string> detokenize(const Json& body);

  engine::Engine& engine;
  EventRouter& router;
  const Options options;
  httplib::Server http;
  std::thread thread;
  std::mutex stopMutex;
  std::atomic<bool> stopping{false};
  std::atomic<int> port{0};
  const std::time_t created = std::time(nullptr);
};

ApiServer::ApiServer(engine::Engine& engine, EventRouter& router, Options options)
    : m_impl(std::make_unique<Impl>(engine, router, std::move(options))) {}

ApiServer::~ApiServer() {
  stop();
}

Result<int> ApiServer::start() {
  Impl& impl = *m_impl;
  impl.configure();
  const std::string& host = impl.options.host;
  int port = impl.options.port;
  if (port < 0 || port > 65535) {
    return fail(ErrorCode::kInvalidArgument, "the port must be between 0 and 65535; it is {}",
                port);
  }
  if (port == 0) {
    port = impl.http.bind_to_any_port(host);
  } else if (!impl.http.bind_to_port(host, port)) {
    port = -1;
  }
  if (port <= 0) {
    return fail(ErrorCode::kIo, "cannot listen on {}:{}; is another program using that port?", host,
                impl.options.port);
  }
  impl.port = port;
  impl.thread = std::thread([this] { m_impl->http.listen_after_bind(); });
  while (!impl.http.is_running() && !impl.stopping) std::this_thread::yield();
  return port;
}

void ApiServer::stop() {
  const std::lock_guard lock(m_impl->stopMutex);
  m_impl->stopping = true;
  if (!m_impl->thread.joinable()) return;
  m_impl->http.stop();
  m_impl->thread.join();
}

int ApiServer::port() const {
  return m_impl->port;
}

std::string ApiServer::url() const {
  const std::string& host = m_impl->options.host;
  const bool isV6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", isV6 ? "[" : "", host, isV6 ? "]" : "", port());
}

void ApiServer::Impl::configure() {
  http.new_task_queue = [] { return new ConnectionThreads(kMaxConnections); };
  // The library's own choice shares a port between programs, and requests go to either.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http.set_payload_max_length(options.maxBodyBytes);
  http.set_keep_alive_max_count(1000);
  http.set_tcp_nodelay(true);
  http.set_read_timeout(10);
  http.set_write_timeout(10);

  http.set_pre_routing_handler(
      [this](const Request& request, Response& response) { return admit(request, response); });
  http.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    send(response, 500, errorBody(500, "the server failed at this request"));
  });
  http.set_error_handler([](const Request& request, Response& response) {
    if (!response.body.empty()) return;
    const int status = response.status;
    const std::string message = status == 404
                                    ? fmt::format("there is no {} {}", request.method, request.path)
                                : status == 413 ? "the body is too large"
                                                : "the request cannot be read";
    response.set_content(errorBody(status, message), kJson);
  });

  http.Get("/v1/models",
           [this](const Request&, Response& response) { send(response, 200, models()); });
  http.Get(R"(/v1/models/(.+))", [this](const Request& request, Response& response) {
    const auto model = loadedModel();
    if (!model) return sendError(response, model.error());
    const std::string wanted = request.matches[1];
    if (wanted != modelName(**model)) {
      return send(response, 404, errorBody(404, fmt::format("there is no model {}", wanted)));
    }
    send(response, 200, dumped(modelEntry(**model)));
  });
  http.Get("/health", [this](const Request&, Response& response) {
    const bool isReady = engine.model() != nullptr;
    send(response, isReady ? 200 : 503,
         dumped({{"status", isReady ? "ok" : "no model is loaded"}}));
  });
  http.Get("/metrics", [this](const Request&, Response& response) {
    const auto model = engine.model();
    response.set_content(
        metricsText(*engine.snapshot(), router.totals(), model ? modelName(*model) : std::string()),
        "text/plain; version=0.0.4");
  });
  postGenerate("/v1/chat/completions", true);
  postGenerate("/v1/completions", false);
  post("/tokenize", &Impl::tokenize);
  post("/detokenize", &Impl::detokenize);
}

// A page in a browser may send requests to loopback, too. It is let in only from an origin that
// was allowed, and not under a foreign name that leads here (DNS rebinding).
httplib::Server::HandlerResponse ApiServer::Impl::admit(const Request& request,
                                                        Response& response) const {
  using Handled = httplib::Server::HandlerResponse;
  const std::string host = request.get_header_value("Host");
  const std::string origin = request.get_header_value("Origin");
  if (isLoopbackName(options.host) && options.apiKey.empty() && !host.empty() &&
      !isLoopbackName(hostPart(host))) {
    send(response, 403,
         errorBody(403,
                   "this server answers only to a loopback name; set an API key to use others"));
    return Handled::Handled;
  }
  if (!origin.empty() && origin != "http://" + host) {
    const bool isAllowed = options.corsOrigin == "*" || options.corsOrigin == origin;
    if (!isAllowed) {
      send(response, 403, errorBody(403, "web pages of other origins are not allowed here"));
      return Handled::Handled;
    }
    response.set_header("Access-Control-Allow-Origin", options.corsOrigin);
    response.set_header("Vary", "Origin");
    if (request.method == "OPTIONS") {
      response.set_header("Access-Control-Allow-Methods", "GET, POST");
      response.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
      response.status = 204;
      return Handled::Handled;
    }
  }
  if (!options.apiKey.empty() && request.path != "/health") {
    if (!sameKey(request.get_header_value("Authorization"), "Bearer " + options.apiKey)) {
      response.set_header("WWW-Authenticate", "Bearer");
      send(response, 401, errorBody(401, "the API key is missing or wrong"));
      return Handled::Handled;
    }
  }
  return Handled::Unhandled;
}

bool ApiServer::Impl::readBody(const httplib::ContentReader& reader, const Request& request,
                               Response& response, Json& body) const {
  if (request.is_multipart_form_data()) {
    send(response, 400, errorBody(400, "the body must be JSON"));
    return false;
  }
  std::string text;
  const bool isRead = reader([&](const char* data, std::size_t size) {
    text.append(data, size);
    return text.size() <= options.maxBodyBytes;
  });
  if (!isRead) {
    const bool isLarge = response.status == 413 || text.size() > options.maxBodyBytes;
    const int status = isLarge ? 413 : 400;
    const std::string message =
        isLarge ? fmt::format("the body is larger than {} bytes", options.maxBodyBytes)
                : "the body did not arrive whole";
    send(response, status, errorBody(status, message));
    return false;
  }
  auto parsed = parseBody(text);
  if (!parsed) {
    sendError(response, parsed.error());
    return false;
  }
  body = std::move(*parsed);
  return true;
}

void ApiServer::Impl::post(const char* path, Result<std::string> (Impl::*answer)(const Json&)) {
  http.Post(path, [this, answer](const Request& request, Response& response,
                                 const httplib::ContentReader& reader) {
    Json body;
    if (!readBody(reader, request, response, body)) return;
    const auto text = (this->*answer)(body);
    if (text) {
      send(response, 200, *text);
    } else {
      sendError(response, text.error());
    }
  });
}

void ApiServer::Impl::postGenerate(const char* path, bool isChat) {
  http.Post(path, [this, isChat](const Request& request, Response& response,
                                 const httplib::ContentReader& reader) {
    Json body;
    if (readBody(reader, request, response, body)) generate(body, isChat, response);
  });
}

void ApiServer::Impl::generate(const Json& body, bool isChat, Response& response) {
  const auto model = loadedModel();
  if (!model) {
    sendError(response, model.error());
    return;
  }
  const auto& defaults = (*model)->generationDefaults();
  auto request = isChat ? readChatRequest(body, defaults) : readCompletionRequest(body, defaults);
  if (!request) {
    sendError(response, request.error());
    return;
  }
  struct Turn {
    ModelPtr model;
    ResponseWriter writer;
    std::shared_ptr<TurnStream> stream;
    bool isStreamed;
  };
  auto turn = std::make_shared<Turn>(Turn{
      *model, ResponseWriter(*request, modelName(**model), **model), nullptr, request->stream});
  turn->stream = router.start(engine, std::move(request->generate));

  // The status is known once the engine has accepted the prompt.
  std::optional<engine::Event> first;
  while (!first) {
    if (stopping) return sendError(response, {ErrorCode::kCancelled, "the server is stopping"});
    first = turn->stream->next(kPatience);
  }
  if (const auto* failed = std::get_if<engine::TurnFailed>(&*first)) {
    return sendError(response, failed->error);
  }
  response.status = 200;
  // An unstreamed answer goes the same way: only a writer notices that its client has gone.
  response.set_chunked_content_provider(
      turn->isStreamed ? "text/event-stream" : kJson,
      [this, turn, event = std::move(first)](std::size_t, httplib::DataSink& sink) mutable {
        const auto write = [&](const std::string& text) {
          return text.empty() || sink.write(text.data(), text.size());
        };
        if (turn->isStreamed && !write(turn->writer.begin())) return false;
        auto lastLook = std::chrono::steady_clock::now();
        while (true) {
          if (!event) event = turn->stream->next(kPatience);
          if (stopping) return false;
          const auto now = std::chrono::steady_clock::now();
          if (now - lastLook >= kPatience) {
            if (!sink.is_writable()) return false;
            lastLook = now;
          }
          if (!event) continue;
          if (const auto* ready = std::get_if<engine::TokensReady>(&*event)) {
            if (!turn->isStreamed) {
              turn->writer.collect(*ready);
            } else if (!write(turn->writer.piece(*ready))) {
              return false;
            }
          } else if (const auto* finished = std::get_if<engine::TurnFinished>(&*event)) {
            const bool isWritten = write(turn->isStreamed ? turn->writer.end(finished->report)
                                                          : turn->writer.whole(finished->report));
            sink.done();
            return isWritten;
          } else if (const auto* failed = std::get_if<engine::TurnFailed>(&*event)) {
            write(turn->isStreamed ? ResponseWriter::failed(failed->error)
                                   : errorBody(failed->error));
            sink.done();
            return true;
          }
          event.reset();
        }
      },
      [turn](bool) { turn->stream.reset(); });  // stops the turn if it still runs
}

Result<ApiServer::Impl::ModelPtr> ApiServer::Impl::loadedModel() const {
  auto model = engine.model();
  if (!model) return fail(ErrorCode::kNotFound, "no model is loaded");
  return model;
}

std::string ApiServer::Impl::modelName(const engine::Model& model) const {
  return options.modelName.empty() ? pathName(model.path()) : options.modelName;
}

Json ApiServer::Impl::modelEntry(const engine::Model& model) const {
  const auto info = router.modelInfo();
  return {{"id", modelName(model)},
          {"object", "model"},
          {"created", created},
          {"owned_by", "vitrine"},
          {"max_model_len", info ? info->contextTokens : model.config().contextLength},
          {"parameters", model.parameterCount()},
          {"quantization", model.quantizationName()}};
}

std::string ApiServer::Impl::models() const {
  Json list = Json::array();
  if (const auto model = engine.model()) list.push_back(modelEntry(*model));
  return dumped({{"object", "list"}, {"data", list}});
}

Result<std::string> ApiServer::Impl::tokenize(const Json& body) {
  VITRINE_ASSIGN(const ModelPtr model, loadedModel());
  const engine::Tokenizer& tokenizer = model->tokenizer();
  VITRINE_ASSIGN(const bool parses, readBool(body, "parse_special", true));
  VITRINE_ASSIGN(const bool adds, readBool(body, "add_special", false));
  std::vector<engine::TokenId> ids;
  if (body.contains("messages")) {
    VITRINE_ASSIGN(const auto messages, readMessages(body));
    VITRINE_ASSIGN(const bool prompts, readBool(body, "add_generation_prompt", true));
    VITRINE_ASSIGN(const auto pieces, model->chatTemplate().render(messages, prompts));
    ids = tokenizer.encode(pieces, messages);
  } else {
    const char* key = body.contains("content") ? "content" : "prompt";
    const auto text = body.find(key);
    if (text == body.end() || !text->is_string()) {
      return fail(ErrorCode::kInvalidArgument, "'content' must be a text");
    }
    const auto& content = text->get_ref<const std::string&>();
    ids = parses ? tokenizer.encodeWithControlTokens(content) : tokenizer.encode(content);
    if (adds && tokenizer.addsBos() && tokenizer.bos()) ids.insert(ids.begin(), *tokenizer.bos());
  }
  return dumped({{"tokens", ids}, {"count", ids.size()}});
}

Result<std::string> ApiServer::Impl::detokenize(const Json& body) {
  VITRINE_ASSIGN(const ModelPtr model, loadedModel());
  VITRINE_ASSIGN(const auto ids, readTokens(body, "tokens", model->tokenizer().vocabSize()));
  const std::string text = model->tokenizer().decode(ids);
  return dumped({{"content", text}, {"prompt", text}});
}

}  // namespace vitrine::app
