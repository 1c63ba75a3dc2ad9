"""Errors as the service words them, and as chat-completions servers do."""

from __future__ import annotations

#: The `error.type` of each status. [RUN for the classes, DOC-A for the names]
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ApiError(Exception):
    """An answer other than 200; its type follows from the status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        error_code: str | None = None,
        headers: dict[str, str] | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error_code = error_code
        self.headers = headers or {}
        self.param = param

    @property
    def kind(self) -> str:
        return ERROR_TYPES.get(self.status, "api_error")

    def body(self, request_id: str) -> dict[str, object]:
        """The error body of the Messages API [RUN: read back by the SDK's error classes]."""
        error: dict[str, object] = {"type": self.kind, "message": self.message}
        if self.error_code is not None:
            error["details"] = {"error_code": self.error_code}
        return {"type": "error", "error": error, "request_id": request_id}

    def chat_body(self) -> dict[str, object]:
        """The error body of a chat-completions server [3P]."""
        error = {"message": self.message, "type": self.kind, "param": self.param}
        return {"error": error | {"code": self.error_code}}


def invalid(message: str) -> ApiError:
    """A 400 of type invalid_request_error."""
    return ApiError(400, message)
