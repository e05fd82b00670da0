<?php
// Runs fedpost.php without WordPress: the functions of WordPress that it calls are here.
//
// usage: try.php INBOX...     (FEDPOST_URL, FEDPOST_API_TOKEN)

class WP_Error {
	public function __construct( private string $code, private string $message ) {}
	public function get_error_code(): string { return $this->code; }
	public function get_error_message(): string { return $this->message; }
}

function is_wp_error( $value ): bool { return $value instanceof WP_Error; }
function wp_json_encode( $value ): string { return json_encode( $value ); }
function wp_remote_retrieve_response_code( array $answer ): int { return $answer['status']; }
function wp_remote_retrieve_body( array $answer ): string { return $answer['body']; }
function wp_remote_post( string $url, array $args ) {
	$headers = array_map( fn( $name, $value ) => "$name: $value", array_keys( $args['headers'] ), $args['headers'] );
	$body    = @file_get_contents( $url, false, stream_context_create( array( 'http' => array( 'method' => 'POST', 'header' => $headers, 'content' => $args['body'], 'timeout' => $args['timeout'], 'ignore_errors' => true ) ) ) );
	if ( false === $body ) {
		return new WP_Error( 'http_request_failed', error_get_last()['message'] );
	}
	return array( 'status' => (int) explode( ' ', $http_response_header[0] )[1], 'body' => $body );
}

define( 'FEDPOST_URL', getenv( 'FEDPOST_URL' ) );
define( 'FEDPOST_API_TOKEN', getenv( 'FEDPOST_API_TOKEN' ) );
require __DIR__ . '/fedpost.php';

$actor   = 'https://social.example/users/frida';
$inboxes = array_slice( $argv, 1 );
$like    = array( 'id' => "$actor/likes/1", 'type' => 'Like', 'actor' => $actor, 'object' => $inboxes[0] );
$first   = fedpost_deliver( $like, "$actor#main-key", $inboxes, 'like 1' );
echo 'sent ', $first, "\n", 'again ', var_export( fedpost_deliver( $like, "$actor#main-key", $inboxes, 'like 1' ) === $first, true ), "\n";
echo 'refused ', fedpost_deliver( $like, "$actor#main-key", array( 'no inbox' ), 'like 2' )->get_error_code(), "\n";
