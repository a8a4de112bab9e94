"""Who may call the server."""

import pytest

from app.server.service import Access
from tests.server.conftest import Serve, Server

PAGE = "https://app.example"
ASKED = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "file://", "http://[", ""]
)
def test_a_page_of_another_origin_is_refused(server: Server, origin: str) -> None:
    status, answer = server.post("/v1/chat/completions", ASKED, Origin=origin, **{"Content-Type": "text/plain"})
    assert (status, answer["error"]["type"]) == (403, "permission_error")
    assert f"--cors {origin}" in answer["error"]["message"]
    assert server.queue.metrics.n_answered == 0


def test_its_own_pages_allowed_pages_and_programs_may_ask(serve: Serve) -> None:
    server = serve()
    assert server.post("/v1/chat/completions", ASKED)[0] == 200
    assert server.post("/v1/chat/completions", ASKED, Origin=f"http://127.0.0.1:{server.port}")[0] == 200
    for origins in ((PAGE,), ("*",)):
        answer = serve(access=Access(origins=origins)).send("POST", "/v1/chat/completions", ASKED, {"Origin": PAGE})
        assert (answer.status, answer.getheader("access-control-allow-origin")) == (200, origins[0])


def test_a_page_under_another_name_is_refused(server: Server) -> None:
    assert server.get("/v1/models", Host="evil.example:80")[0] == 403
    assert server.get("/v1/models", Host=f"localhost:{server.port}")[0] == 200


def test_a_key_replaces_the_origin_check(serve: Serve) -> None:
    server = serve(access=Access(key="secret"))
    assert server.get("/v1/models", Origin=PAGE, Authorization="Bearer secret")[0] == 200
    assert server.get("/v1/models", Origin=PAGE)[0] == 401


def test_the_key_is_read_with_and_without_a_scheme(serve: Serve) -> None:
    server = serve(access=Access(key="secret"))
    for given in ("Bearer secret", "bearer  secret", "secret"):
        assert server.get("/v1/models", Authorization=given)[0] == 200
    for given in ("Basic secret", "Bearer", "", "secret2"):
        assert server.get("/v1/models", Authorization=given)[0] == 401
    assert server.get("/v1/health")[0] == server.get("/health")[0] == 200


def test_a_browser_may_reach_an_allowed_server_in_a_private_network(serve: Serve) -> None:
    names = ("Access-Control-Request-Method", "Access-Control-Request-Private-Network")
    headers = {"Origin": PAGE, **dict(zip(names, ("POST", "true"), strict=True))}
    answer = serve(access=Access(origins=(PAGE,))).send("OPTIONS", "/v1/chat/completions", headers=headers)
    assert (answer.status, answer.getheader("access-control-allow-private-network")) == (200, "true")
    refused = serve().send("OPTIONS", "/v1/chat/completions", headers=headers)
    assert f"--cors {PAGE}" in refused.read().decode()


def test_a_wrong_method_names_the_right_one(server: Server) -> None:
    response = server.send("GET", "/v1/chat/completions")
    assert (response.status, response.getheader("allow")) == (405, "POST")
