# The recipe for Elixir of docs/guide.md. It needs Elixir 1.18, or another module JSON, such as
# that of Erlang's jiffy below.
#
# usage: elixir fedpost.exs INBOX...     (FEDPOST_URL, FEDPOST_API_TOKEN)
unless Code.ensure_loaded?(JSON) do
  defmodule JSON do
    def encode!(term), do: IO.iodata_to_binary(:jiffy.encode(term))
    def decode!(text), do: :jiffy.decode(text, [:return_maps])
  end
end

defmodule Fedpost do
  # Hands over one activity. `once` is the deduplication key: a repeated call sends nothing twice.
  def deliver(activity, key_id, inboxes, once) do
    url = System.fetch_env!("FEDPOST_URL") <> "/v1/activities"
    token = [{~c"authorization", ~c"Bearer #{System.fetch_env!("FEDPOST_API_TOKEN")}"}]
    body = JSON.encode!(%{activity: activity, keyId: key_id, recipients: inboxes, deduplicationKey: once})
    options = [connect_timeout: 5_000, timeout: 30_000, ssl: :httpc.ssl_verify_host_options(true)]

    case :httpc.request(:post, {url, token, ~c"application/json", body}, options, body_format: :binary) do
      {:ok, {{_, 202, _}, _, answer}} -> {:ok, JSON.decode!(answer)["id"]}
      {:ok, {{_, status, _}, _, answer}} when status in [409, 429] or status >= 500 -> {:error, answer}
      {:ok, {_, _, answer}} -> {:cancel, answer}
      {:error, reason} -> {:error, inspect(reason)}
    end
  end
end

Enum.each([:inets, :ssl], &Application.ensure_all_started/1)
[inbox | _] = inboxes = System.argv()
actor = "https://social.example/users/frida"
like = %{id: "#{actor}/likes/1", type: "Like", actor: actor, object: inbox}
key = "#{actor}#main-key"
{:ok, first} = Fedpost.deliver(like, key, inboxes, "like 1")
IO.puts("sent #{first}")
IO.puts("again #{Fedpost.deliver(like, key, inboxes, "like 1") == {:ok, first}}")
{:cancel, answer} = Fedpost.deliver(like, key, ["no inbox"], "like 2")
IO.puts("refused #{hd(JSON.decode!(answer)["errors"])["pointer"]}")
System.put_env("FEDPOST_URL", "http://127.0.0.1:1")
{:error, _} = Fedpost.deliver(like, key, inboxes, "like 1")
IO.puts("unavailable")
